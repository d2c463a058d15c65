"""The sweep: makes deadlines, timers and recovery happen. One idempotent pass, safe in many places at once.

Each part takes a batch at a time, in a transaction of its own, and skips rows that another sweep
(or a reviewer) holds. With nothing to do it costs a few look-ups in partial indexes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django.db import connections
from django.utils import timezone

from django_stephooks.conf import app_settings
from django_stephooks.durations import parse_duration
from django_stephooks.models import Event, Hook, Run, Sweep
from django_stephooks.models.run import RunQuerySet
from django_stephooks.models.transactions import transact, write_alias
from django_stephooks.runtimes.base import get_runtime, ring_after_commit

from .hooks import expire_hooks
from .runs import close_run


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """How many hooks expired, timers woke a run, crashes were made good or not, and bells were rung."""

    expired: int = 0
    woken: int = 0
    recovered: int = 0
    failed: int = 0
    rung: int = 0

    def __str__(self) -> str:
        return (
            f"{self.expired} expired, {self.woken} woken, {self.recovered} recovered, "
            f"{self.failed} failed, {self.rung} rung"
        )


def sweep(*, now: datetime | None = None) -> SweepResult:
    """Make one pass. `now` is for tests."""
    now = now or timezone.now()
    recovered, failed = _in_batches(_recover, now, 2)
    result = SweepResult(
        expired=_in_batches(_expire, now)[0],
        woken=_in_batches(_wake, now)[0],
        recovered=recovered,
        failed=failed,
        rung=_ring_again(now),
    )
    Sweep.objects.using(write_alias()).update_or_create(pk=1, defaults={"last_swept_at": now})
    return result


def _in_batches(
    part: Callable[[datetime, int], tuple[int, ...]], now: datetime, counts: int = 1
) -> tuple[int, ...]:
    """Until a batch is not full, and so nothing (that nobody else holds) is left."""
    size = app_settings.SWEEP_BATCH
    totals = (0,) * counts
    while True:
        done = part(now, size)
        totals = tuple(map(sum, zip(totals, done, strict=True)))
        if sum(done) < size:
            return totals


@transact
def _expire(now: datetime, size: int) -> tuple[int]:
    alias = write_alias()
    hooks = Hook.objects.using(alias)
    found = list(hooks.past_deadline(now).order_by("expires_at").values_list("pk", "run_id")[:size])
    if not found:
        return (0,)
    held = _hold(Run.objects.using(alias).filter(pk__in={run_id for _, run_id in found}))
    mine = [pk for pk, run_id in found if run_id in held]
    return (len(expire_hooks(hooks.filter(pk__in=mine), now=now)),)


@transact
def _wake(now: datetime, size: int) -> tuple[int]:
    runs = Run.objects.using(write_alias())
    held = _hold(
        runs.filter(pk__in=list(runs.timers_due(now).order_by("due_at").values_list("pk", flat=True)[:size]))
    )
    woken = runs.filter(pk__in=held).timers_due(now)
    queues = set(woken.values_list("queue", flat=True))
    count = woken.make_ready(now)
    for queue in sorted(queues):
        ring_after_commit(queue, using=runs.db)
    return (count,)


@transact
def _recover(now: datetime, size: int) -> tuple[int, int]:
    runs = Run.objects.using(write_alias())
    crashed = list(runs.lease_ended(now).order_by("due_at").values_list("pk", flat=True)[:size])
    held = _hold(runs.filter(pk__in=crashed))
    if not held:
        return (0, 0)
    ended = list(runs.filter(pk__in=held).lease_ended(now))
    hopeless = [run for run in ended if run.recoveries >= run.max_recoveries]
    for run in hopeless:
        error = {
            "type": "django_stephooks.exceptions:RunLostError",
            "message": (
                f"Its worker stopped in the middle of turn {run.turn} (crash, kill, or lost lease), and so "
                f"did the {run.max_recoveries} before: max_recoveries={run.max_recoveries}. "
                "Find out why, then retry the run."
            ),
        }
        runs.filter(pk=run.pk).fail(error=error, now=now)
        close_run(run, Event.Type.RUN_FAILED, error, now=now, why="run failed")
    lost = [run for run in ended if run.recoveries < run.max_recoveries]
    runs.filter(pk__in=[run.pk for run in lost]).recover(now)
    Event.objects.using(runs.db).bulk_create(
        Event(run=run, type=Event.Type.RUN_RECOVERED, data={"turn": run.turn}, created_at=now) for run in lost
    )
    for queue in sorted({run.queue for run in lost}):
        ring_after_commit(queue, using=runs.db)
    return (len(lost), len(hopeless))


def _ring_again(now: datetime) -> int:
    """For runs that are ready and that nobody has taken for longer than the grace period."""
    overdue = now - parse_duration(app_settings.READY_GRACE, name="READY_GRACE")
    runs = Run.objects.using(write_alias()).ready().filter(due_at__lte=overdue)
    queues = sorted(set(runs.order_by().values_list("queue", flat=True).distinct()))
    for queue in queues:
        get_runtime().ring_again(queue)
    return len(queues)


def _hold(runs: RunQuerySet) -> set[int]:
    """Lock these runs' rows, in the order of their keys, but for those that somebody else holds."""
    if connections[runs.db].features.has_select_for_update_skip_locked:
        runs = runs.select_for_update(skip_locked=True)
    return set(runs.order_by("pk").values_list("pk", flat=True))
