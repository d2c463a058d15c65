"""Fixtures for links and mail: a site that has them, and a browser fresh from a mail program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from tests.review.visiting import Visitor


@pytest.fixture(autouse=True)
def site(settings: Any) -> Any:
    """The settings of a site with links; its address is https://testserver."""
    settings.ROOT_URLCONF = "tests.review.urls"
    settings.STEPHOOKS = {**settings.STEPHOOKS, "BASE_URL": "https://testserver"}
    return settings


@pytest.fixture
def configure(settings: Any) -> Callable[..., None]:
    """`configure(NAME=value)` changes one of our settings."""

    def set_some(**changed: Any) -> None:
        settings.STEPHOOKS = {**settings.STEPHOOKS, **changed}

    return set_some


@pytest.fixture(autouse=True)
def empty_cache() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def visitor() -> Visitor:
    """Somebody whose browser has no cookies, and is checked for CSRF as browsers are."""
    return Visitor(Client(enforce_csrf_checks=True))
