"""The demo's site, at whose readers' desk no worker is: the test makes the turns itself."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from demo_project.children import ROOT
from tests.engine.conftest import no_worker
from tests.factories import UserFactory

__all__ = ["no_worker"]


def open_the_newsroom(settings: Any) -> None:
    """The demo's pages, on the site of the tests."""
    settings.ROOT_URLCONF = "demo_project.urls"
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [ROOT / "templates"]}]
    settings.LOGIN_URL = "login"
    # Where the links in mails lead.
    settings.STEPHOOKS = {"BASE_URL": "http://testserver", **settings.STEPHOOKS}


@pytest.fixture(autouse=True)
def newsroom(settings: Any, no_worker: None) -> None:
    open_the_newsroom(settings)


@pytest.fixture
def editor_client() -> Client:
    """A colleague who may answer what the clerk asks, and nothing else."""
    client = Client()
    client.force_login(UserFactory(username="editor", reviewer=True))
    return client
