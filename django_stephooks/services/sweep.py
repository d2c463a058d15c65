"""The sweep: makes deadlines, timers and recovery happen. One idempotent pass, safe in many places at once.

Each part takes a batch at a time, in a transaction of its own, and skips rows that another sweep
(or a reviewer) holds. With nothing to do it costs a few look-ups in partial indexes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connections
from django.db.models import Q, QuerySet
from django.utils import timezone

from django_stephooks.conf import app_settings
from django_stephooks.durations import parse_duration
from django_stephooks.models import Event, Hook, Run, Sweep
from django_stephooks.models.transactions import retried, transact, write_alias
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
    alias = write_alias()
    hooks, runs = Hook.objects.using(alias), Run.objects.using(alias)
    done: Counter[str] = Counter()
    done += _in_batches(_recover, runs.lease_ended(now), ("due_at", "pk", "pk"), now)
    done += _in_batches(_expire, hooks.past_deadline(now), ("expires_at", "pk", "run_id"), now)
    done += _in_batches(_wake, runs.timers_due(now), ("due_at", "pk", "pk"), now)
    result = SweepResult(**done, rung=_ring_again(now))
    _note(now)
    return result


def seconds_until_due(*, longest: float) -> float:
    """How long until the next deadline passes, timer is due, or lease ends; 0 if that is so already.

    At most `longest`. Three look-ups in partial indexes, for whoever sweeps at the right moment.
    """
    alias = write_alias()
    hooks, runs = Hook.objects.using(alias), Run.objects.using(alias)
    moments = [
        hooks.with_deadline().order_by("expires_at").values_list("expires_at", flat=True).first(),
        runs.with_timer().order_by("due_at").values_list("due_at", flat=True).first(),
        runs.leased().order_by("due_at").values_list("due_at", flat=True).first(),
    ]
    now = timezone.now()
    seconds = [(moment - now).total_seconds() for moment in moments if moment is not None]
    return max(0, min([longest, *seconds]))


def _in_batches(
    part: Callable[[dict[int, int], datetime], dict[str, int]],
    due: QuerySet[Any],
    columns: tuple[str, str, str],
    now: datetime,
) -> Counter[str]:
    """Batch after batch of what is due, as {key: run's key}, each from where the last one ended.

    So rows that somebody else holds keep nobody from what comes behind them. A batch is read before
    the transaction that acts on it: that one begins by locking, and sees what is true from then on,
    whatever its isolation level.
    """
    size, (moment, _, _) = app_settings.SWEEP_BATCH, columns
    totals: Counter[str] = Counter()
    rows = due.order_by(moment, "pk").values_list(*columns)
    while found := list(rows[:size]):
        totals.update(part({pk: run for _, pk, run in found}, now))
        if len(found) < size:
            break
        at, pk, _ = found[-1]
        behind = Q(**{f"{moment}__gt": at}) | Q(**{moment: at, "pk__gt": pk})
        # The first condition says less than the second, but an index can begin there.
        rows = due.filter(behind, **{f"{moment}__gte": at}).order_by(moment, "pk").values_list(*columns)
    return totals


@transact
def _expire(found: dict[int, int], now: datetime) -> dict[str, int]:
    held = _hold(found.values())
    mine = [pk for pk, run in found.items() if run in held]
    return {"expired": len(expire_hooks(Hook.objects.using(write_alias()).filter(pk__in=mine), now=now))}


@transact
def _wake(found: dict[int, int], now: datetime) -> dict[str, int]:
    woken = Run.objects.using(write_alias()).filter(pk__in=_hold(found)).timers_due(now)
    queues = set(woken.values_list("queue", flat=True))
    count = woken.make_ready(now)
    for queue in sorted(queues):
        ring_after_commit(queue, using=woken.db)
    return {"woken": count}


@transact
def _recover(found: dict[int, int], now: datetime) -> dict[str, int]:
    runs = Run.objects.using(write_alias())
    ended = list(runs.filter(pk__in=_hold(found)).lease_ended(now).defer("arguments", "result", "error"))
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
    recovered = Event.Type.RUN_RECOVERED
    Event.objects.using(runs.db).record(
        *(Event(run=run, type=recovered, data={"turn": run.turn}, created_at=now) for run in lost)
    )
    for queue in sorted({run.queue for run in lost}):
        ring_after_commit(queue, using=runs.db)
    return {"recovered": len(lost), "failed": len(hopeless)}


@retried
def _note(now: datetime) -> None:
    rows = Sweep.objects.using(write_alias())
    if not rows.filter(pk=1).update(last_swept_at=now):
        # Another sweep that is the first one too may be faster; it says the same.
        rows.bulk_create([Sweep(pk=1, last_swept_at=now)], ignore_conflicts=True)


def _ring_again(now: datetime) -> int:
    """For runs that are ready and that nobody has taken for longer than the grace period."""
    overdue = now - parse_duration(app_settings.READY_GRACE, name="READY_GRACE")
    runs = Run.objects.using(write_alias()).ready().filter(due_at__isnull=False)
    ready: Any = runs.order_by("queue", "due_at").values_list("queue", "due_at")
    rung = 0
    # From queue to queue by its oldest: however many are ready, each costs one look into the index.
    oldest = ready.first()
    while oldest is not None:
        queue, since = oldest
        if since <= overdue:
            get_runtime().ring_again(queue)
            rung += 1
        oldest = ready.filter(queue__gt=queue).first()
    return rung


def _hold(pks: Iterable[int]) -> set[int]:
    """Lock these runs' rows, in the order of their keys, but for those that somebody else holds."""
    runs = Run.objects.using(write_alias()).filter(pk__in=set(pks))
    if connections[runs.db].features.has_select_for_update_skip_locked:
        runs = runs.select_for_update(skip_locked=True)
    return set(runs.order_by("pk").values_list("pk", flat=True))
