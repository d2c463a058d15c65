"""The few reads and writes of a turn, all in one place: what is written when, and under which fence.

Every write is one transaction that changes the run's row only while this turn holds it (the fence),
so a worker whose lease has ended writes nothing: RunLostError. How it is written is `models.statements`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db import transaction

from django_stephooks import signals
from django_stephooks.exceptions import RunLostError
from django_stephooks.models import Event, Hook, Run
from django_stephooks.models.fields import Encoded
from django_stephooks.models.hook import HookQuerySet
from django_stephooks.models.run import completed, failed, handed_back, leased, suspended
from django_stephooks.models.statements import HOOK_DEFERRED, Changes, Entry, statements, tell
from django_stephooks.models.transactions import retried, transact, write_alias

from .journal import Journal

# A ready run that somebody holds is looked for again after so many seconds, then left to the sweep.
PAUSES = (0.005, 0.01, 0.02, 0.04, 0.08)
pause = time.sleep


def claim(queue: str, *, lease_until: datetime) -> Run | None:
    """Take the run of this queue that has been ready for longest; None if there is none."""
    for seconds in (*PAUSES, None):
        run = _claim(queue, lease_until)
        if run is not None or seconds is None or not any_ready(queue):
            return run
        # Somebody holds what is ready. Another worker takes it; but whoever only looked at it (an
        # answer that came too late, say) lets go of it and rings no bell.
        pause(seconds)
    return None


@retried
def _claim(queue: str, lease_until: datetime) -> Run | None:
    return statements(write_alias()).claim(queue, lease_until=lease_until)


def any_ready(queue: str) -> bool:
    return Run.objects.using(write_alias()).ready().filter(queue=queue).exists()


def load(run: Run) -> Journal:
    """The run's journal: one query (two with the ORM, if it ever asked anybody anything)."""
    return Journal(*statements(write_alias()).journal(run))


def load_checkpoint(run: Run, call: str) -> tuple[Any, int] | None:
    """What the step saved, and how many chunks it had emitted by then; None if nothing is stored."""
    return statements(write_alias()).checkpoint(run, call)


def reload_hooks(hooks: Iterable[Hook]) -> list[Hook]:
    """As they are now."""
    known = Hook.objects.using(write_alias()).filter(pk__in=[hook.pk for hook in hooks])
    return list(known.defer(*HOOK_DEFERRED).order_by("pk"))


def save_checkpoint(
    run: Run, call: str, data: str, emitted: int, *, now: datetime, lease_until: datetime
) -> None:
    changes = Changes(checkpoints={call: data}, emitted={call: emitted} if emitted else {})
    _settle(run, leased(lease_until), changes, now)


def record(run: Run, changes: Changes, *, now: datetime, lease_until: datetime) -> None:
    """Write in the middle of a turn; the lease is renewed by the way."""
    _settle(run, leased(lease_until), changes, now)


def suspend(
    run: Run,
    changes: Changes,
    *,
    waits_for: list[Hook],
    due_at: datetime | None,
    facts: dict[str, Any],
    now: datetime,
) -> bool:
    """End the turn waiting. False if it need not wait: a hook was answered meanwhile, or the timer is due.

    `facts`, here and below: what the event that ends the turn tells of it.
    """
    known = [hook.pk for hook in waits_for if not hook._state.adding]
    if due_at is not None and due_at <= now:
        _settle(run, handed_back(now), changes, now)
        return False
    waiting = {"waits_for": sorted(hook.call for hook in waits_for), **facts}
    if due_at is not None:
        waiting["due_at"] = due_at
    told = Entry(Event.Type.RUN_SUSPENDED, "", waiting, now)
    waits = replace(changes, events=[*changes.events, told])
    if not known:
        _settle(run, suspended(due_at), waits, now)
        return True
    return _suspend_unless_settled(run, known, changes, waits, due_at, now)


@transact
def _suspend_unless_settled(
    run: Run, hooks: list[int], changes: Changes, waits: Changes, due_at: datetime | None, now: datetime
) -> bool:
    # The row's lock first, so that an answer comes either before the look below, or after it finds
    # the run suspended and makes it ready.
    _hold(run)
    known = Hook.objects.using(write_alias()).filter(pk__in=hooks)
    if known.exclude(status=Hook.Status.PENDING).exists():
        _settle(run, handed_back(now), changes, now)
        return False
    _settle(run, suspended(due_at), waits, now)
    return True


@transact
def expire_hooks(run: Run, hooks: Sequence[Hook], *, now: datetime, lease_until: datetime) -> None:
    """Their deadlines passed while nobody looked: what the sweep would do, done at once."""
    _settle(run, leased(lease_until), Changes(), now)
    known = Hook.objects.using(write_alias()).filter(pk__in=[hook.pk for hook in hooks])
    for expired in known.expire(now=now):
        signals.send_after_commit(signals.hook_expired, Hook, using=known.db, hook=expired)


@transact
def reopen_hooks(run: Run, hooks: Sequence[Hook], *, now: datetime, lease_until: datetime) -> None:
    """A retried run asks again what was cancelled when it failed."""
    _settle(run, leased(lease_until), Changes(), now)
    alias = write_alias()
    if Hook.objects.using(alias).filter(pk__in=[hook.pk for hook in hooks]).reopen():
        Event.objects.using(alias).record(
            *(Event(run=run, type=Event.Type.HOOK_REOPENED, call=hook.call, created_at=now) for hook in hooks)
        )


def complete(run: Run, changes: Changes, *, result: str, facts: dict[str, Any], now: datetime) -> None:
    changes.events.append(Entry(Event.Type.RUN_COMPLETED, "", facts, now))
    _settle(run, completed(Encoded(result), now), changes, now)


def fail(
    run: Run,
    changes: Changes,
    *,
    error: dict[str, Any],
    facts: dict[str, Any],
    now: datetime,
    calls: Sequence[str] = (),
) -> None:
    """`calls`: the calls whose failure it was, to be made again if the run is retried."""
    summary = {"type": error["type"], "message": error["message"], "calls": list(calls), **facts}
    changes.events.append(Entry(Event.Type.RUN_FAILED, "", summary, now))
    changes.ends_all_hooks = True
    _settle(run, failed(error, now), changes, now)


def hand_back(run: Run, *, now: datetime) -> None:
    """End the turn with nothing written: another worker may go on at once."""
    _settle(run, handed_back(now), Changes(), now)


@retried
def _settle(run: Run, columns: dict[str, Any], changes: Changes, now: datetime) -> None:
    alias = write_alias()
    if not (changes.ended or changes.ends_all_hooks):
        statements(alias).settle(run, columns, changes, now=now)
        return tell(run, changes.events, using=alias)
    with transaction.atomic(using=alias):
        _hold(run)
        hooks = Hook.objects.using(alias).filter(run=run)
        _end_hooks(hooks if changes.ends_all_hooks else hooks.filter(call__in=changes.ended), now)
        statements(alias).settle(run, columns, changes, now=now)
        tell(run, changes.events, using=alias)


def _hold(run: Run) -> None:
    """Lock the run's row, if this turn still holds it."""
    held = Run.objects.using(write_alias()).filter(pk=run.pk).held(run.turn)
    if not held.select_for_update().values_list("pk", flat=True).first():
        raise RunLostError


def _end_hooks(hooks: HookQuerySet, now: datetime) -> None:
    for hook in hooks.cancel(now=now, reason="no longer waited for"):
        signals.send_after_commit(signals.hook_cancelled, Hook, using=hooks.db, hook=hook)
