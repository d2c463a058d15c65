"""What these tests share: a crew of threads, and a runtime that leaves the turns to the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection

from django_stephooks.engine.worker import work
from django_stephooks.models import Hook, Run

from . import bells, workflows
from .crew import Crew


@pytest.fixture(autouse=True)
def counted_bells(settings: Any) -> Iterator[list[str]]:
    """Nobody works unless the test says so; the bells that were rung."""
    settings.STEPHOOKS = {"RUNTIME": f"{bells.__name__}.CountedBells"}
    for noted in (bells.rung, bells.rung_again, workflows.done, workflows.between):
        noted.clear()
    yield bells.rung
    workflows.between.clear()


@pytest.fixture
def crew(transactional_db: None) -> Iterator[Callable[[int], Crew]]:
    """`crew(8)`: eight threads; they are gone, with their connections, when the test ends."""
    crews: list[Crew] = []

    def gather(size: int) -> Crew:
        crews.append(Crew(size))
        return crews[-1]

    yield gather
    for one in crews:
        one.__exit__(None, None, None)


@pytest.fixture
def rows_can_be_skipped() -> None:
    if not connection.features.has_select_for_update_skip_locked:
        pytest.skip("This database locks no rows: a writer waits for the one before it.")


def suspended(start: Callable[..., Run], *args: Any) -> Hook:
    """The question of a run that was just started and now waits."""
    run = start(*args)
    assert work(run.queue) == 1
    run.refresh_from_db()
    assert run.status == Run.Status.SUSPENDED, run.error
    return run.hooks.get()
