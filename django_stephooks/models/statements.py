"""The statements that every turn and every answer need: few, and made fast.

`Statements` writes them with the ORM, for every database. Compiling them is most of what a turn would
spend, so PostgreSQL has the same ones written out (`postgres`). Rules live elsewhere: the engine's
store and the services say what is written when; the run's querysets say what a status change is.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connections, transaction

from django_stephooks import signals
from django_stephooks.exceptions import HookAlreadyReceivedError, RunLostError

from .checkpoint import StepCheckpoint
from .event import Event
from .fields import Encoded
from .hook import Hook
from .run import Run

# What a turn never looks at: it may be long.
HOOK_DEFERRED = ("title", "description", "context", "reviewers", "answered_by_label", "channel")


class Entry(NamedTuple):
    """An event that is to be written."""

    type: Event.Type
    call: str
    data: Any
    at: datetime

    def event(self, run_id: int) -> Event:
        return Event(run_id=run_id, type=self.type, call=self.call, data=self.data, created_at=self.at)


@dataclass
class Changes:
    """What is written together with a change of the run's row, in one transaction."""

    events: list[Entry] = field(default_factory=list)
    hooks: list[Hook] = field(default_factory=list)
    notified: list[Hook] = field(default_factory=list)
    # By their calls.
    checkpoints: dict[str, str] = field(default_factory=dict)
    # Of those of them whose step had emitted chunks by then: how many.
    emitted: dict[str, int] = field(default_factory=dict)
    dropped_checkpoints: list[str] = field(default_factory=list)
    # Hooks, by their calls, that nobody waits for any more: what asked them has ended.
    ended: list[str] = field(default_factory=list)
    ends_all_hooks: bool = False
    drops_all_checkpoints: bool = False

    def __bool__(self) -> bool:
        return any(vars(self).values())


class Statements:
    """On the database `alias`, with the ORM."""

    def __init__(self, alias: str) -> None:
        self.alias = alias

    def start(self, run: Run, entry: Entry) -> None:
        """Store a new run and the first event of its journal."""
        with transaction.atomic(using=self.alias):
            run.save(using=self.alias, force_insert=True)
            Event.objects.using(self.alias).bulk_create([entry.event(run.pk)])

    def claim(self, queue: str, *, lease_until: datetime) -> Run | None:
        """Take the run of this queue that has been ready for longest, but for those that somebody holds."""
        with transaction.atomic(using=self.alias):
            runs = Run.objects.using(self.alias)
            ready = runs.ready().filter(queue=queue).order_by("due_at")
            if connections[self.alias].features.has_select_for_update_skip_locked:
                ready = ready.select_for_update(skip_locked=True)
            run = ready.first()
            # The turn is part of the condition where rows can not be locked. It is never read again: a
            # process that slept for longer than its lease would read the turn of whoever came after it.
            if run is None or not runs.filter(pk=run.pk, turn=run.turn).claim(lease_until=lease_until):
                return None
        run.status, run.turn, run.due_at = Run.Status.RUNNING, run.turn + 1, lease_until
        return run

    def journal(self, run: Run) -> tuple[Iterable[tuple[str, str, Any]], Iterable[Hook]]:
        """What is replayed from, in order; and the hooks, if there are any."""
        events = Event.objects.using(self.alias).filter(run=run).journal()
        rows = list(events.values_list("type", "call", "data"))
        if not any(type == Event.Type.HOOK_CREATED for type, _, _ in rows):
            return rows, ()
        return rows, Hook.objects.using(self.alias).filter(run=run).defer(*HOOK_DEFERRED).order_by("pk")

    def checkpoint(self, run: Run, call: str) -> tuple[Any, int] | None:
        """What the step saved, and how many chunks it had emitted by then; None if nothing is stored."""
        stored = StepCheckpoint.objects.using(self.alias).filter(run=run, call=call)
        return stored.values_list("data", "emitted").first()

    def settle(self, run: Run, columns: dict[str, Any], changes: Changes, *, now: datetime) -> None:
        """Change the run's row if this turn still holds it, and write the rest with it; else RunLostError."""
        with transaction.atomic(using=self.alias):
            if not Run.objects.using(self.alias).filter(pk=run.pk).held(run.turn).update(**columns):
                raise RunLostError
            self._insert_hooks(changes.hooks)
            if changes.events:
                Event.objects.using(self.alias).bulk_create(entry.event(run.pk) for entry in changes.events)
            if changes.notified:
                pks = [hook.pk for hook in changes.notified]
                Hook.objects.using(self.alias).filter(pk__in=pks).update(notified_at=now)
            self._write_checkpoints(run, changes, now)

    def hook(self, public_id: uuid.UUID) -> Hook | None:
        return Hook.objects.using(self.alias).filter(public_id=public_id).first()

    def lock(self, run_id: int, hook_id: int) -> tuple[Run, Hook]:
        """The rows, locked in the order in which everybody locks: the run's first."""
        run = Run.objects.using(self.alias).select_for_update().get(pk=run_id)
        return run, Hook.objects.using(self.alias).select_for_update().get(pk=hook_id)

    def receive(self, hook: Hook, columns: dict[str, Any], entry: Entry) -> None:
        """Change the hook's row if it is pending, note it, and make its run ready if it waits.

        The caller holds the rows. HookAlreadyReceivedError if the hook is settled.
        """
        if not Hook.objects.using(self.alias).filter(pk=hook.pk).pending().update(**columns):
            raise HookAlreadyReceivedError(hook=hook)
        Event.objects.using(self.alias).bulk_create([entry.event(hook.run_id)])
        Run.objects.using(self.alias).filter(pk=hook.run_id).make_ready(entry.at)

    def _insert_hooks(self, hooks: list[Hook]) -> None:
        if connections[self.alias].features.can_return_rows_from_bulk_insert:
            Hook.objects.using(self.alias).bulk_create(hooks)
            return
        for hook in hooks:
            hook.save(using=self.alias, force_insert=True)

    def _write_checkpoints(self, run: Run, changes: Changes, now: datetime) -> None:
        checkpoints = StepCheckpoint.objects.using(self.alias)
        if changes.checkpoints:
            targets = connections[self.alias].features.supports_update_conflicts_with_target
            checkpoints.bulk_create(
                [
                    StepCheckpoint(
                        run=run,
                        call=call,
                        data=Encoded(text),
                        emitted=changes.emitted.get(call, 0),
                        saved_at=now,
                    )
                    for call, text in changes.checkpoints.items()
                ],
                update_conflicts=True,
                update_fields=["data", "emitted", "saved_at"],
                unique_fields=["run", "call"] if targets else None,
            )
        if changes.drops_all_checkpoints:
            checkpoints.filter(run=run).delete()
        elif changes.dropped_checkpoints:
            checkpoints.filter(run=run, call__in=changes.dropped_checkpoints).delete()


def tell(run: Run, entries: Iterable[Entry], *, using: str) -> None:
    """Tell of what was written of this run, once that is committed; nothing at all if nobody listens."""
    if signals.events_recorded.has_listeners(Event):
        events = [entry.event(run.pk) for entry in entries]
        for event in events:
            event.run = run
        signals.tell_recorded(events, using=using)


def statements(alias: str) -> Statements:
    """The fastest ones that there are for this database."""
    if connections[alias].vendor == "postgresql":
        from .postgres import PostgresStatements

        return PostgresStatements(alias)
    return Statements(alias)
