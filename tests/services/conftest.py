"""Fixtures for what the outside does to runs: no worker, a worker that is killed, what was seen."""

from __future__ import annotations

from typing import Any

import pytest

from django_stephooks.engine import store
from tests.app import workflows

from . import bells


@pytest.fixture(autouse=True)
def seen() -> list[Any]:
    """What the code of the workflows did, in order."""
    workflows.seen.clear()
    return workflows.seen


@pytest.fixture
def no_worker(settings: Any) -> list[str]:
    """Nobody works on anything unless the test says so; gives the queues whose bell was rung."""
    settings.STEPHOOKS = {"RUNTIME": f"{bells.__name__}.NotedBells"}
    bells.rung.clear()
    bells.rung_again.clear()
    return bells.rung


class Killed(BaseException):
    """SIGKILL in the middle of a turn."""


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> type[Killed]:
    """To be raised by a run's code: the process ends there, and writes nothing more."""

    def is_dead(*args: Any, **kwargs: Any) -> None:
        raise Killed

    monkeypatch.setattr(store, "hand_back", is_dead)
    return Killed
