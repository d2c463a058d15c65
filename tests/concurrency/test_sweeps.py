"""Sweeps in many places at once: each thing happens once, and nothing is left over."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.models import Count
from django.utils import timezone

from django_stephooks.engine.worker import work
from django_stephooks.models import Event, Hook, Run, Sweep
from django_stephooks.services.sweep import SweepResult, sweep

from . import workflows
from .crew import PATIENCE, Crew

MANY = 40


@pytest.fixture(autouse=True)
def small_batches(settings: Any) -> None:
    settings.STEPHOOKS = {**settings.STEPHOOKS, "SWEEP_BATCH": 6}


def waiting_runs() -> None:
    for _ in range(MANY):
        workflows.ask_one.start(3600)
    assert work("default") == MANY


def events_by_run(type: Event.Type) -> list[int]:
    counted = Event.objects.filter(type=type).order_by().values("run").annotate(n=Count("pk"))
    return list(counted.values_list("n", flat=True))


def summed(results: list[SweepResult], what: str) -> int:
    assert all(isinstance(it, SweepResult) for it in results), results
    return sum(getattr(it, what) for it in results)


def test_sweeps_at_once_expire_each_hook_once(crew: Callable[[int], Crew]) -> None:
    waiting_runs()
    Hook.objects.update(expires_at=timezone.now())
    results = crew(4).together(*[sweep] * 4)
    assert summed(results, "expired") == MANY
    assert events_by_run(Event.Type.HOOK_EXPIRED) == [1] * MANY
    assert work("default") == MANY
    assert Run.objects.filter(status=Run.Status.COMPLETED).count() == MANY


def test_sweeps_at_once_wake_each_timer_once(crew: Callable[[int], Crew]) -> None:
    waiting_runs()
    Run.objects.update(due_at=timezone.now())
    assert summed(crew(4).together(*[sweep] * 4), "woken") == MANY
    assert Run.objects.ready().count() == MANY


def test_sweeps_at_once_recover_each_crashed_run_once(crew: Callable[[int], Crew]) -> None:
    for _ in range(MANY):
        workflows.count_once.start(1)
    Run.objects.update(status=Run.Status.RUNNING, turn=1, due_at=timezone.now())
    assert summed(crew(4).together(*[sweep] * 4), "recovered") == MANY
    assert events_by_run(Event.Type.RUN_RECOVERED) == [1] * MANY
    assert set(Run.objects.values_list("recoveries", flat=True)) == {1}


def test_sweeps_at_once_fail_each_hopeless_run_once(crew: Callable[[int], Crew]) -> None:
    waiting_runs()
    Run.objects.update(status=Run.Status.RUNNING, due_at=timezone.now(), recoveries=3, max_recoveries=3)
    assert summed(crew(4).together(*[sweep] * 4), "failed") == MANY
    assert events_by_run(Event.Type.RUN_FAILED) == [1] * MANY
    assert events_by_run(Event.Type.HOOK_CANCELLED) == [1] * MANY


def test_first_sweeps_of_a_site_at_once_agree_on_one_row(crew: Callable[[int], Crew]) -> None:
    threads = crew(8)
    for _ in range(10):
        Sweep.objects.all().delete()
        summed(threads.together(*[sweep] * 8), "expired")
        assert Sweep.objects.count() == 1


@pytest.mark.parametrize("what", ["expired", "woken", "recovered"])
def test_rows_that_somebody_holds_keep_a_sweep_from_nothing_else(
    crew: Callable[[int], Crew], rows_can_be_skipped: None, what: str
) -> None:
    """As another sweep that works on the first batch does; or a reviewer who is just answering."""
    waiting_runs()
    now = timezone.now()
    if what == "expired":
        for place, pk in enumerate(Hook.objects.order_by("run").values_list("pk", flat=True)):
            deadline = now - timedelta(seconds=MANY - place)
            Hook.objects.filter(pk=pk).update(expires_at=deadline)
    else:
        status = Run.Status.SUSPENDED if what == "woken" else Run.Status.RUNNING
        for place, pk in enumerate(Run.objects.order_by("pk").values_list("pk", flat=True)):
            due_at = now - timedelta(seconds=MANY - place)
            Run.objects.filter(pk=pk).update(status=status, due_at=due_at)
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            first = Run.objects.order_by("pk").values_list("pk", flat=True)[:8]
            assert len(Run.objects.filter(pk__in=list(first)).select_for_update()) == 8
            held.set()
            assert release.wait(PATIENCE)

    holder = crew(1).begin(hold)
    try:
        assert held.wait(PATIENCE)
        assert getattr(sweep(), what) == MANY - 8
    finally:
        release.set()
    holder.result(PATIENCE)
    assert getattr(sweep(), what) == 8
