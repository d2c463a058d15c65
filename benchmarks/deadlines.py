"""Deadlines: thousands at one moment, and what the sweep costs when there are none."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta

from django.utils import timezone

from django_stephooks.models import Hook
from django_stephooks.services.sweep import sweep

from . import database, processes
from .bench import Bench
from .report import Row

LATE_GOALS = {1000: 3}
IDLE_GOAL = 5
BUSY_GOALS = {10_000: 2}
# Time enough for the scheduler to sweep once or twice before it.
AHEAD = 2.5


def deadlines(bench: Bench) -> Iterator[Row]:
    """The scheduler and one worker, which sweeps as well: how late the last run has gone on and ended."""
    for count in bench.plan.deadlines:
        # The largest takes long, and is steady because it does.
        repeat = bench.plan.repeat if count < 10_000 else 1
        with bench.workers(), processes.command("stephooks_scheduler", log=bench.log):
            lateness = [_lateness(bench, count) for _ in range(repeat)]
        for index, what in enumerate(("run ended", "hook expired")):
            yield Row(
                measure=f"{count:,} deadlines at one moment, last {what} late by",
                values=[late[index] for late in lateness],
                unit="s",
                others=bench.others,
                floor=_jobs_floor(bench, count) if index == 0 else None,
                goal=LATE_GOALS.get(count) if index == 0 else None,
            )


def _lateness(bench: Bench, count: int) -> tuple[float, float]:
    after = bench.store_waiting(count)
    clock, deadline = time.monotonic() + AHEAD, timezone.now() + timedelta(seconds=AHEAD)
    Hook.objects.filter(run_id__gt=after).update(expires_at=deadline)
    ended = database.wait_until_settled(count, "completed", after=after)
    last = Hook.objects.filter(run_id__gt=after).order_by("-settled_at")[0].settled_at
    assert last is not None
    database.forget(after)
    return ended - clock, (last - deadline).total_seconds()


def _jobs_floor(bench: Bench, count: int) -> float | None:
    """As many RQ jobs that do nothing."""
    rate = bench.floors.get("jobs")
    return count / rate if rate else None


def sweeping(bench: Bench) -> Iterator[Row]:
    """One call of the sweep, no worker at work."""
    sweep()
    milliseconds = []
    for _ in range(bench.plan.single):
        began = time.monotonic()
        sweep()
        milliseconds.append((time.monotonic() - began) * 1000)
    yield Row(
        measure="the sweep with nothing to do",
        values=milliseconds,
        unit="ms",
        others=bench.others,
        floor=bench.floors.get("commit"),
        goal=IDLE_GOAL,
    )
    for count in bench.plan.deadlines:
        seconds = [_sweep_expired(bench, count) for _ in range(bench.plan.repeat)]
        yield Row(
            measure=f"the sweep with {count:,} hooks past their deadline",
            values=seconds,
            unit="s",
            others=bench.others,
            goal=BUSY_GOALS.get(count),
        )


def _sweep_expired(bench: Bench, count: int) -> float:
    after = bench.store_waiting(count)
    Hook.objects.filter(run_id__gt=after).update(expires_at=timezone.now())
    database.tidy()
    began = time.monotonic()
    result = sweep()
    ended = time.monotonic()
    assert result.expired == count, result
    database.forget(after)
    processes.empty_redis()
    return ended - began
