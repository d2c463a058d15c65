"""A site with every door, and the one who goes through them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache

from tests.factories import UserFactory

from .doors import DOORS, Door


@pytest.fixture(autouse=True)
def site(request: pytest.FixtureRequest, settings: Any) -> Iterator[None]:
    """With what the door that a test goes through needs."""
    callspec = getattr(request.node, "callspec", None)
    door = DOORS.get(callspec.params.get("door", ""), Door) if callspec else Door
    settings.ROOT_URLCONF = "tests.desk.urls"
    settings.STEPHOOKS = {**settings.STEPHOOKS, "BASE_URL": "https://testserver", **door.needs}
    cache.clear()  # what is counted against the rate limits outlives a test
    yield
    cache.clear()


@pytest.fixture
def dana(db: None) -> Any:
    """The least privileged reviewer; her address is dana@example.com."""
    return UserFactory(username="dana", reviewer=True)
