"""Several workers on one queue: each run's turn is made once, and no ready run is passed by."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import Count
from django.utils import timezone

from django_stephooks.engine import store
from django_stephooks.engine.worker import work
from django_stephooks.models import Event, Run
from django_stephooks.runtimes import rq

from . import workflows
from .crew import PATIENCE, Crew, errors

MANY = 60


def test_workers_share_the_runs_and_make_each_turn_once(crew: Callable[[int], Crew]) -> None:
    for number in range(MANY):
        workflows.count_once.start(number)

    turns = crew(4).together(*[partial(work, "default")] * 4)

    assert not errors(turns)
    # Whoever came while all that was left was being claimed has rightly gone home.
    assert sum(turns) + work("default") == MANY
    assert sorted(workflows.done) == list(range(MANY))
    assert set(Run.objects.values_list("status", "turn")) == {(Run.Status.COMPLETED, 1)}
    counted = Event.objects.filter(type=Event.Type.STEP_STARTED).order_by().values("run")
    assert set(counted.annotate(n=Count("pk")).values_list("n", flat=True)) == {1}


@pytest.mark.parametrize("attempt", range(5))
def test_same_job_on_two_workers_makes_one_turn(
    crew: Callable[[int], Crew], attempt: int, settings: Any
) -> None:
    workflows.count_once.start(7)
    outcomes = crew(2).together(*[partial(rq.job, "default")] * 2)
    assert not errors(outcomes)
    assert workflows.done == [7]
    assert Run.objects.get().turn == 1


def test_same_job_again_after_the_first_does_nothing(transactional_db: None) -> None:
    run = workflows.count_once.start(7)
    assert [work("default"), work("default")] == [1, 0]
    assert workflows.done == [7]
    assert run.events.filter(type=Event.Type.RUN_COMPLETED).count() == 1


def test_run_that_somebody_else_holds_for_a_moment_is_not_passed_by(
    crew: Callable[[int], Crew], rows_can_be_skipped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is told that an answer came too late looks at the run's row too, and rings no bell."""
    workflows.count_once.start(7)
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            Run.objects.select_for_update().get()
            held.set()
            assert release.wait(PATIENCE)

    holder = crew(1).begin(hold)
    assert held.wait(PATIENCE)

    def let_go(seconds: float) -> None:
        release.set()
        holder.result(PATIENCE)

    monkeypatch.setattr(store, "pause", let_go)
    try:
        assert work("default") == 1
    finally:
        release.set()
    assert workflows.done == [7]


def test_worker_does_not_wait_for_ever_for_a_run_that_is_held(
    crew: Callable[[int], Crew], rows_can_be_skipped: None
) -> None:
    workflows.count_once.start(7)
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            Run.objects.select_for_update().get()
            held.set()
            assert release.wait(PATIENCE)

    threads = crew(2)
    holder = threads.begin(hold)
    assert held.wait(PATIENCE)
    try:
        assert threads.begin(lambda: work("default")).result(PATIENCE) == 0
    finally:
        release.set()
    holder.result(PATIENCE)


@pytest.mark.django_db(transaction=True)
def test_claim_hands_out_the_turn_that_it_took_even_if_the_process_was_asleep() -> None:
    """Asleep for longer than its lease: by then another worker has the next turn."""
    run = workflows.count_once.start(7)
    taken_over: list[int] = []

    def sleep_well(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        is_claimed = Run.objects.filter(turn=1).exists
        if not connection.in_atomic_block and not taken_over:
            taken_over.append(0)
            if is_claimed():
                taken_over.append(1)
                Run.objects.update(turn=2)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(sleep_well):
        claimed = store.claim("default", lease_until=timezone.now())
    assert claimed is not None
    assert (claimed.pk, claimed.turn) == (run.pk, 1)
