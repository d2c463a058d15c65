"""The few reads and writes of a turn, all in one place.

Every write is one transaction that begins at the run's row and changes it only while this turn
holds it (the fence), so a worker whose lease has ended writes nothing: RunLostError.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connections

from django_stephooks import signals
from django_stephooks.exceptions import RunLostError
from django_stephooks.models import Event, Hook, Run, StepCheckpoint
from django_stephooks.models.fields import Encoded
from django_stephooks.models.hook import HookQuerySet
from django_stephooks.models.transactions import transact, write_alias

from .journal import Journal

# What a turn never looks at: it may be long.
HOOK_DEFERRED = ("title", "description", "context", "reviewers", "answered_by_label", "channel")
# A ready run that somebody holds is looked for again after so many seconds, then left to the sweep.
PAUSES = (0.005, 0.01, 0.02, 0.04, 0.08)
pause = time.sleep


@dataclass
class Changes:
    """What a turn has to write next, in one transaction."""

    events: list[Event] = field(default_factory=list)
    hooks: list[Hook] = field(default_factory=list)
    notified: list[Hook] = field(default_factory=list)
    dropped_checkpoints: list[str] = field(default_factory=list)
    # Hooks, by their calls, that nobody waits for any more: what asked them has ended.
    ended: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.events or self.hooks or self.notified or self.dropped_checkpoints or self.ended)


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


@transact
def _claim(queue: str, lease_until: datetime) -> Run | None:
    runs = Run.objects.using(write_alias())
    ready = runs.ready().filter(queue=queue).order_by("due_at")
    if connections[runs.db].features.has_select_for_update_skip_locked:
        ready = ready.select_for_update(skip_locked=True)
    run = ready.first()
    # The turn is part of the condition where rows can not be locked. It is never read again: a
    # process that slept for longer than its lease would read the turn of whoever came after it.
    if run is None or not runs.filter(pk=run.pk, turn=run.turn).claim(lease_until=lease_until):
        return None
    run.status, run.turn, run.due_at = Run.Status.RUNNING, run.turn + 1, lease_until
    return run


def any_ready(queue: str) -> bool:
    return Run.objects.using(write_alias()).ready().filter(queue=queue).exists()


def load(run: Run) -> Journal:
    """The run's journal: one query, and one more if it ever asked anybody anything."""
    alias = write_alias()
    events = list(Event.objects.using(alias).filter(run=run).journal().values_list("type", "call", "data"))
    hooks: Iterable[Hook] = ()
    if any(type == Event.Type.HOOK_CREATED for type, _, _ in events):
        hooks = Hook.objects.using(alias).filter(run=run).defer(*HOOK_DEFERRED).order_by("pk")
    return Journal(events, hooks)


def load_checkpoint(run: Run, call: str) -> Any:
    """What the step saved; None if nothing is stored."""
    stored = StepCheckpoint.objects.using(write_alias()).filter(run=run, call=call)
    return stored.values_list("data", flat=True).first()


def reload_hook(hook: Hook) -> Hook:
    return Hook.objects.using(write_alias()).defer(*HOOK_DEFERRED).get(pk=hook.pk)


@transact
def save_checkpoint(run: Run, call: str, data: str, *, now: datetime, lease_until: datetime) -> None:
    _hold(run, lease_until)
    StepCheckpoint.objects.using(write_alias()).bulk_create(
        [StepCheckpoint(run=run, call=call, data=Encoded(data), saved_at=now)],
        update_conflicts=True,
        update_fields=["data", "saved_at"],
        unique_fields=_conflict_target(["run", "call"]),
    )


@transact
def record(run: Run, changes: Changes, *, now: datetime, lease_until: datetime) -> None:
    """Write in the middle of a turn; the lease is renewed by the way."""
    _hold(run, lease_until)
    _write(run, changes, now)


@transact
def suspend(
    run: Run, changes: Changes, *, waits_for: list[Hook], due_at: datetime | None, now: datetime
) -> bool:
    """End the turn waiting. False if it need not wait: a hook was answered meanwhile, or the timer is due."""
    runs = Run.objects.using(write_alias()).filter(pk=run.pk)
    # The fence and the row's lock first, so that an answer comes either before the look below, or
    # after it finds the run suspended and makes it ready.
    ready = due_at is not None and due_at <= now
    asked = [hook.pk for hook in waits_for if not hook._state.adding]
    if asked:
        if not runs.held(run.turn).select_for_update().values_list("pk", flat=True).first():
            raise RunLostError
        answered = Hook.objects.using(runs.db).filter(pk__in=asked).exclude(status=Hook.Status.PENDING)
        ready = ready or answered.exists()
    if ready:
        _fenced(runs.hand_back(run.turn, now=now))
    else:
        _fenced(runs.suspend(run.turn, due_at=due_at))
        calls = sorted(hook.call for hook in waits_for)
        changes.events.append(
            Event(
                run=run,
                type=Event.Type.RUN_SUSPENDED,
                data={"waits_for": calls, "due_at": due_at},
                created_at=now,
            )
        )
    try:
        _write(run, changes, now)
    finally:
        if not ready:
            changes.events.pop()  # the transaction may be tried again
    return not ready


@transact
def expire_hook(run: Run, hook: Hook, *, now: datetime, lease_until: datetime) -> None:
    """Its deadline passed while nobody looked: what the sweep would do, done at once."""
    _hold(run, lease_until)
    Hook.objects.using(write_alias()).filter(pk=hook.pk).expire(now=now)


@transact
def reopen_hook(run: Run, hook: Hook, *, now: datetime, lease_until: datetime) -> None:
    """A retried run asks again what was cancelled when it failed."""
    _hold(run, lease_until)
    alias = write_alias()
    if Hook.objects.using(alias).filter(pk=hook.pk).reopen():
        Event.objects.using(alias).create(
            run=run, type=Event.Type.HOOK_REOPENED, call=hook.call, created_at=now
        )


@transact
def complete(run: Run, changes: Changes, *, result: str, drop_checkpoints: bool, now: datetime) -> None:
    runs = Run.objects.using(write_alias()).filter(pk=run.pk)
    _fenced(runs.complete(run.turn, result=Encoded(result), now=now))
    if drop_checkpoints:
        StepCheckpoint.objects.using(write_alias()).filter(run=run).delete()
    _write(run, changes, now, Event(run=run, type=Event.Type.RUN_COMPLETED, created_at=now))


@transact
def fail(
    run: Run, changes: Changes, *, error: dict[str, Any], now: datetime, calls: Sequence[str] = ()
) -> None:
    """`calls`: the calls whose failure it was, to be made again if the run is retried."""
    runs = Run.objects.using(write_alias()).filter(pk=run.pk)
    _fenced(runs.held(run.turn).fail(error=error, now=now))
    summary = {"type": error["type"], "message": error["message"], "calls": list(calls)}
    _end_hooks(Hook.objects.using(runs.db).filter(run=run), now)
    _write(run, changes, now, Event(run=run, type=Event.Type.RUN_FAILED, data=summary, created_at=now))


@transact
def hand_back(run: Run, *, now: datetime) -> None:
    """End the turn with nothing written: another worker may go on at once."""
    _fenced(Run.objects.using(write_alias()).filter(pk=run.pk).hand_back(run.turn, now=now))


def _hold(run: Run, lease_until: datetime) -> None:
    runs = Run.objects.using(write_alias()).filter(pk=run.pk)
    _fenced(runs.extend_lease(run.turn, lease_until=lease_until))


def _fenced(changed: int) -> None:
    if not changed:
        raise RunLostError


def _write(run: Run, changes: Changes, now: datetime, *last: Event) -> None:
    alias = write_alias()
    for hook in changes.hooks:
        # One by one: not every database hands back the keys of a bulk insert.
        hook.save(using=alias, force_insert=True)
    if changes.events or last:
        Event.objects.using(alias).bulk_create([*changes.events, *last])
    if changes.notified:
        pks = [hook.pk for hook in changes.notified]
        Hook.objects.using(alias).filter(pk__in=pks).update(notified_at=now)
    if changes.dropped_checkpoints:
        StepCheckpoint.objects.using(alias).filter(run=run, call__in=changes.dropped_checkpoints).delete()
    if changes.ended:
        _end_hooks(Hook.objects.using(alias).filter(run=run, call__in=changes.ended), now)


def _end_hooks(hooks: HookQuerySet, now: datetime) -> None:
    for hook in hooks.cancel(now=now, reason="no longer waited for"):
        signals.send_after_commit(signals.hook_cancelled, Hook, using=hooks.db, hook=hook)


def _conflict_target(fields: list[str]) -> list[str] | None:
    features = connections[write_alias()].features
    return fields if features.supports_update_conflicts_with_target else None
