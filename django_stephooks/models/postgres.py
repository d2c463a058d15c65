"""The statements of every turn, written out for PostgreSQL: one round trip each, nothing to compile.

A data-modifying WITH is a transaction of its own. Its first part is the fence, and all others take
their rows from it: where the fence is lost, nothing is written. The server would spend more on
planning such a statement than on running it, so each connection has it prepared once (`preparing`).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Iterable, Sequence, Sized
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

from django.db import connections, models

from django_stephooks.exceptions import HookAlreadyReceivedError, RunLostError

from . import preparing
from .checkpoint import StepCheckpoint
from .event import Event
from .fields import Encoded, RecordField
from .hook import Hook
from .run import Run
from .statements import HOOK_DEFERRED, Changes, Entry, Statements

M = TypeVar("M", bound=models.Model)

RUN_FIELDS = {field.attname: field for field in Run._meta.concrete_fields}
HOOK_FIELDS = {field.attname: field for field in Hook._meta.concrete_fields}
TURN_HOOK_COLUMNS = [name for name in HOOK_FIELDS if name not in HOOK_DEFERRED]
RECORDS = {
    field.attname
    for model in (Run, Hook)
    for field in model._meta.concrete_fields
    if isinstance(field, RecordField)
}
NEW_RUN_FIELDS = {name: field for name, field in RUN_FIELDS.items() if name != "id"}
EVENT_DATA: Any = Event._meta.get_field("data")
CHECKPOINT_DATA: Any = StepCheckpoint._meta.get_field("data")
# A statement takes 65,535 parameters.
MOST_HOOKS, MOST_EVENTS = 1000, 5000
NEW_HOOK_FIELDS = [field for name, field in HOOK_FIELDS.items() if name not in ("id", "run_id")]

# The uncorrelated subquery is evaluated once: exactly one row is locked, and changed.
CLAIM = f"""\
UPDATE django_stephooks_run SET status = 'running', turn = turn + 1, due_at = %s
WHERE id = (
    SELECT id FROM django_stephooks_run
    WHERE status = 'pending' AND due_at IS NOT NULL AND queue = %s
    ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED
)
RETURNING {", ".join(RUN_FIELDS)}
"""  # noqa: S608  (column names of the models)

JOURNAL = f"""\
SELECT event.type, event.call, event.data, {", ".join(f"hook.{name}" for name in TURN_HOOK_COLUMNS)}
FROM django_stephooks_event event LEFT JOIN django_stephooks_hook hook
    ON event.type = 'hook_created' AND hook.run_id = event.run_id AND hook.call = event.call
WHERE event.run_id = %s AND event.type IN ({", ".join(f"'{type}'" for type in Event.REPLAYED)})
ORDER BY event.id
"""  # noqa: S608

CHECKPOINT = "SELECT data, emitted FROM django_stephooks_stepcheckpoint WHERE run_id = %s AND call = %s"

# The parts of one WITH; `held` is the run's row.
HELD = """\
WITH held AS (
    UPDATE django_stephooks_run SET {assignments}
    WHERE id = %s AND status = 'running' AND turn = %s RETURNING id
)"""
NEW_EVENTS = """, events AS (
    INSERT INTO django_stephooks_event (run_id, type, call, data, created_at)
    SELECT held.id, new.type, new.call, new.data, new.at
    FROM held, (VALUES {rows}) AS new (n, type, call, data, at) ORDER BY new.n
)"""
NEW_EVENT = "(%s, %s, %s, %s, %s::timestamptz)"
NEW_HOOKS = f""", hooks AS (
    INSERT INTO django_stephooks_hook (run_id, {", ".join(field.attname for field in NEW_HOOK_FIELDS)})
    SELECT held.id, new.* FROM held, (VALUES {{rows}}) AS new RETURNING id, call
)"""  # noqa: S608
NOTIFIED = """, notified AS (
    UPDATE django_stephooks_hook SET notified_at = %s FROM held
    WHERE django_stephooks_hook.run_id = held.id AND django_stephooks_hook.id = ANY(%s)
)"""
NEW_CHECKPOINTS = """, checkpoints AS (
    INSERT INTO django_stephooks_stepcheckpoint (run_id, call, data, emitted, saved_at)
    SELECT held.id, new.* FROM held, (VALUES {rows}) AS new
    ON CONFLICT (run_id, call) DO UPDATE
    SET data = EXCLUDED.data, emitted = EXCLUDED.emitted, saved_at = EXCLUDED.saved_at
)"""
NEW_CHECKPOINT = "(%s, %s::bytea, %s::integer, %s::timestamptz)"
DROPPED = """, dropped AS (
    DELETE FROM django_stephooks_stepcheckpoint USING held WHERE run_id = held.id{condition}
)"""
RESULT = " SELECT id, NULL FROM held"
RESULT_WITH_HOOKS = " SELECT id, NULL FROM held UNION ALL SELECT id, call FROM hooks"

HOOK = f"SELECT {', '.join(HOOK_FIELDS)} FROM django_stephooks_hook WHERE public_id = %s"  # noqa: S608
LOCKED_RUN = f"SELECT {', '.join(RUN_FIELDS)} FROM django_stephooks_run WHERE id = %s FOR UPDATE"  # noqa: S608
LOCKED_HOOK = f"SELECT {', '.join(HOOK_FIELDS)} FROM django_stephooks_hook WHERE id = %s FOR UPDATE"  # noqa: S608
RECEIVE = """\
WITH hook AS (
    UPDATE django_stephooks_hook SET {assignments}
    WHERE id = %s AND status = 'pending' RETURNING run_id
), woken AS (
    UPDATE django_stephooks_run SET status = 'pending', due_at = %s FROM hook
    WHERE django_stephooks_run.id = hook.run_id AND status = 'suspended'
)
INSERT INTO django_stephooks_event (run_id, type, call, data, created_at)
SELECT run_id, %s, %s, %s, %s::timestamptz FROM hook RETURNING id
"""

STARTED = f"""\
WITH run AS (
    INSERT INTO django_stephooks_run ({", ".join(NEW_RUN_FIELDS)}) VALUES {{row}} RETURNING id
), event AS (
    INSERT INTO django_stephooks_event (run_id, type, call, data, created_at)
    SELECT id, %s, %s, %s, %s::timestamptz FROM run
)
SELECT id FROM run
"""  # noqa: S608


class PostgresStatements(Statements):
    def start(self, run: Run, entry: Entry) -> None:
        row = f"({', '.join(['%s'] * len(NEW_RUN_FIELDS))})"
        params = [self._prepared(field, field.pre_save(run, True)) for field in NEW_RUN_FIELDS.values()]
        params += [entry.type.value, entry.call, EVENT_DATA.get_prep_value(entry.data), entry.at]
        ((run.pk,),) = self._rows(STARTED.format(row=row), params)
        run._state.db, run._state.adding = self.alias, False

    def claim(self, queue: str, *, lease_until: datetime) -> Run | None:
        rows = self._rows(CLAIM, [lease_until, queue])
        return self._loaded(Run, RUN_FIELDS, rows[0]) if rows else None

    def journal(self, run: Run) -> tuple[list[tuple[str, str, Any]], list[Hook]]:
        events, hooks = [], []
        for type, call, data, *columns in self._rows(JOURNAL, [run.pk]):
            events.append((type, call, decoded(data)))
            if columns[0] is not None:
                hooks.append(self._loaded(Hook, TURN_HOOK_COLUMNS, columns))
        return events, hooks

    def checkpoint(self, run: Run, call: str) -> tuple[Any, int] | None:
        for data, emitted in self._rows(CHECKPOINT, [run.pk, call]):
            return CHECKPOINT_DATA.from_db_value(data, None, None), emitted
        return None

    def settle(self, run: Run, columns: dict[str, Any], changes: Changes, *, now: datetime) -> None:
        if len(changes.hooks) > MOST_HOOKS or len(changes.events) > MOST_EVENTS:
            return super().settle(run, columns, changes, now=now)
        parts = [HELD.format(assignments=_assignments(columns))]
        params = [self._prepared(RUN_FIELDS[name], value) for name, value in columns.items()]
        params += [run.pk, run.turn]
        if changes.events:
            parts.append(NEW_EVENTS.format(rows=_times(NEW_EVENT, changes.events)))
            for number, (type, call, data, at) in enumerate(changes.events):
                params += [number, type.value, call, EVENT_DATA.get_prep_value(data), at]
        if changes.hooks:
            parts.append(NEW_HOOKS.format(rows=_times(_new_hook(self.alias), changes.hooks)))
            for hook in changes.hooks:
                params += [self._prepared(field, field.pre_save(hook, True)) for field in NEW_HOOK_FIELDS]
        if changes.notified:
            parts.append(NOTIFIED)
            params += [now, [hook.pk for hook in changes.notified]]
        if changes.checkpoints:
            parts.append(NEW_CHECKPOINTS.format(rows=_times(NEW_CHECKPOINT, changes.checkpoints)))
            for call, text in changes.checkpoints.items():
                data = self._prepared(CHECKPOINT_DATA, Encoded(text))
                params += [call, data, changes.emitted.get(call, 0), now]
        if changes.drops_all_checkpoints:
            parts.append(DROPPED.format(condition=""))
        elif changes.dropped_checkpoints:
            parts.append(DROPPED.format(condition=" AND call = ANY(%s)"))
            params.append(changes.dropped_checkpoints)
        parts.append(RESULT_WITH_HOOKS if changes.hooks else RESULT)
        rows = self._rows("".join(parts), params)
        if not rows:
            raise RunLostError
        self._note_keys(changes.hooks, {call: pk for pk, call in rows if call is not None})

    def hook(self, public_id: uuid.UUID) -> Hook | None:
        rows = self._rows(HOOK, [public_id])
        return self._loaded(Hook, HOOK_FIELDS, rows[0]) if rows else None

    def lock(self, run_id: int, hook_id: int) -> tuple[Run, Hook]:
        # Two statements: the second one sees what was committed before the first one got its lock.
        run, hook = self._rows(LOCKED_RUN, [run_id]), self._rows(LOCKED_HOOK, [hook_id])
        if not run or not hook:
            raise Hook.DoesNotExist
        return self._loaded(Run, RUN_FIELDS, run[0]), self._loaded(Hook, HOOK_FIELDS, hook[0])

    def receive(self, hook: Hook, columns: dict[str, Any], entry: Entry) -> None:
        sql = RECEIVE.format(assignments=_assignments(columns))
        params = [self._prepared(HOOK_FIELDS[name], value) for name, value in columns.items()]
        data = EVENT_DATA.get_prep_value(entry.data)
        params += [hook.pk, entry.at, entry.type.value, entry.call, data, entry.at]
        if not self._rows(sql, params):
            raise HookAlreadyReceivedError(hook=hook)

    def _note_keys(self, hooks: Sequence[Hook], keys: dict[str, int]) -> None:
        for hook in hooks:
            hook.pk, hook._state.db, hook._state.adding = keys[hook.call], self.alias, False

    def _rows(self, sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        with preparing.cursor(connections[self.alias]) as cursor:
            cursor.execute(sql, params)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    def _prepared(self, field: Any, value: Any) -> Any:
        return field.get_db_prep_save(value, connections[self.alias])

    def _loaded(self, model: type[M], names: Collection[str], row: Iterable[Any]) -> M:
        """An instance with these columns. Recorded values are decoded when somebody asks for them."""
        values = [
            Encoded(value) if name in RECORDS and value is not None else value
            for name, value in zip(names, row, strict=True)
        ]
        return model.from_db(self.alias, names, values)


def decoded(text: str) -> Any:
    return EVENT_DATA.from_db_value(text, None, None)


def _assignments(columns: Iterable[str]) -> str:
    return ", ".join(f"{name} = %s" for name in columns)


def _times(row: str, items: Sized) -> str:
    return ", ".join([row] * len(items))


@cache
def _new_hook(alias: str) -> str:
    """A row of VALUES. No lengths in its types: a cast would cut what is too long, not refuse it."""
    types = [re.sub(r"\(.*\)", "", str(field.db_type(connections[alias]))) for field in NEW_HOOK_FIELDS]
    return f"({', '.join(f'%s::{type}' for type in types)})"
