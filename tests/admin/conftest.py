"""The least that a reviewer has: `view_hook` and `review_hook`, and their browser."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.factories import UserFactory


def browser_of(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def dana(db: None) -> Any:
    return UserFactory(username="dana", reviewer=True)


@pytest.fixture
def browser(dana: Any) -> Client:
    """Dana's."""
    return browser_of(dana)


@pytest.fixture
def onlooker(db: None) -> Client:
    """Of somebody who may look at hooks and runs, and do nothing."""
    return browser_of(UserFactory(username="lou", staff=True, permissions=["view_hook", "view_run"]))


@pytest.fixture
def operator(db: None) -> Client:
    """Of somebody who looks after runs."""
    user = UserFactory(username="ollie", staff=True, permissions=["view_run", "cancel_run", "retry_run"])
    return browser_of(user)
