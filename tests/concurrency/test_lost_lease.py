"""A worker that lost its lease while it worked: it writes nothing more, and says nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from django_stephooks.engine import lease
from django_stephooks.engine.worker import work
from django_stephooks.models import Event, Run
from django_stephooks.services.sweep import sweep

from . import workflows
from .crew import PATIENCE, Crew

LONG = timedelta(hours=1)


@pytest.fixture(params=["working", "saved"])
def stuck(
    request: pytest.FixtureRequest, crew: Callable[[int], Crew]
) -> Iterator[tuple[workflows.Gate, Future[int]]]:
    """A turn that hangs in its first step, before or after it saved a checkpoint."""
    gate = workflows.Gate()
    workflows.between[request.param] = gate
    workflows.take_long.start()
    turn = crew(1).begin(lambda: work("default"))
    gate.wait()
    workflows.between.clear()
    yield gate, turn
    gate.open()


def test_taken_over_run_is_finished_once_by_the_one_who_has_it(
    stuck: tuple[workflows.Gate, Future[int]],
) -> None:
    gate, turn = stuck
    assert sweep(now=timezone.now() + LONG).recovered == 1
    assert work("default") == 1
    run = Run.objects.get()
    assert (run.status, run.turn, run.result) == (Run.Status.COMPLETED, 2, ["first", "second"])
    journal = list(run.events.values_list("type", "call"))

    gate.open()

    turn.result(PATIENCE)
    assert list(run.events.values_list("type", "call")) == journal
    run.refresh_from_db()
    assert (run.status, run.turn) == (Run.Status.COMPLETED, 2)
    assert not run.checkpoints.exists()


def test_late_worker_stops_at_its_next_write_while_the_other_is_still_at_work(
    stuck: tuple[workflows.Gate, Future[int]], crew: Callable[[int], Crew]
) -> None:
    gate, turn = stuck
    assert sweep(now=timezone.now() + LONG).recovered == 1
    other = workflows.Gate()
    workflows.between["working"] = other
    second = crew(1).begin(lambda: work("default"))
    other.wait()
    journal = list(Event.objects.values_list("type", "call"))

    gate.open()

    turn.result(PATIENCE)
    assert "second" not in workflows.done
    assert list(Event.objects.values_list("type", "call")) == journal
    assert Run.objects.get().status == Run.Status.RUNNING
    other.open()
    second.result(PATIENCE)
    run = Run.objects.get()
    assert (run.status, run.result) == (Run.Status.COMPLETED, ["first", "second"])
    completed = Event.objects.filter(type=Event.Type.STEP_COMPLETED).values_list("call", flat=True)
    assert list(completed) == ["work_long:1", "work_long:2"]


def test_lease_is_renewed_while_a_turn_works(
    crew: Callable[[int], Crew], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in a new process: the thread of earlier turns may be asleep for a third of a longer lease.
    monkeypatch.setattr(lease, "_keeper", lease.Keeper())
    settings.STEPHOOKS = {**settings.STEPHOOKS, "LEASE": "0.6s"}
    gate = workflows.Gate()
    workflows.between["working"] = gate
    run = workflows.take_long.start()
    turn = crew(1).begin(lambda: work("default"))
    gate.wait()
    run.refresh_from_db()
    first_lease = run.due_at
    deadline = timezone.now() + timedelta(seconds=PATIENCE)
    while Run.objects.get().due_at < first_lease + timedelta(seconds=1):
        assert timezone.now() < deadline, "Nobody renewed the lease."
        gate.opened.wait(0.05)
    gate.open()
    turn.result(PATIENCE)
    run.refresh_from_db()
    assert (run.status, run.turn, run.recoveries) == (Run.Status.COMPLETED, 1, 0)
