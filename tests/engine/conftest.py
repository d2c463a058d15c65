"""Fixtures for what happens inside a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from django_stephooks.runtimes.base import Runtime

from . import watching


class NobodyComes(Runtime):
    """Whoever rings, no worker is there: the test makes the turns itself."""

    def ring(self, queue: str) -> None:
        pass


@pytest.fixture(autouse=True)
def did() -> Iterator[list[Any]]:
    """What the code of the workflows did, in order."""
    watching.did.clear()
    yield watching.did
    watching.did.clear()


@pytest.fixture
def no_worker(settings: Any) -> None:
    """Runs stay ready until the test calls `advance`."""
    settings.STEPHOOKS = {**settings.STEPHOOKS, "RUNTIME": f"{__name__}.{NobodyComes.__name__}"}
