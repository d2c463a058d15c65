"""What the database says at the end, read with plain SQL: nothing of the product is imported here.

`HISTORY` keeps, in the database itself, every state that runs and hooks went through; whoever writes
them, and however. Commit times are PostgreSQL's own (`track_commit_timestamp`), which no worker's
clock can make wrong.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

Row = dict[str, Any]

HISTORY = """
CREATE TABLE chaos_history (
    id bigserial PRIMARY KEY, kind text NOT NULL, row_id bigint NOT NULL,
    status text NOT NULL, turn bigint, due_at timestamptz,
    payload text, expires_at timestamptz, notified_at timestamptz
);
CREATE FUNCTION chaos_note_run() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO chaos_history (kind, row_id, status, turn, due_at)
    VALUES ('run', NEW.id, NEW.status, NEW.turn, NEW.due_at);
    RETURN NULL;
END $$;
CREATE FUNCTION chaos_note_hook() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO chaos_history (kind, row_id, status, payload, expires_at, notified_at)
    VALUES ('hook', NEW.id, NEW.status, NEW.payload, NEW.expires_at, NEW.notified_at);
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_run AFTER INSERT OR UPDATE ON django_stephooks_run
    FOR EACH ROW EXECUTE FUNCTION chaos_note_run();
CREATE TRIGGER chaos_hook AFTER INSERT OR UPDATE ON django_stephooks_hook
    FOR EACH ROW EXECUTE FUNCTION chaos_note_hook();
"""

COMMITTED = "pg_xact_commit_timestamp(xmin)"

# `key` and `call` alone are words of MySQL's.
RUNS = """
SELECT id, workflow, run.key, status, turn, recoveries, due_at, result, error, created_at, finished_at
FROM django_stephooks_run run ORDER BY id
"""
HOOKS = """
SELECT id, public_id, run_id, hook.call, name, status, on_timeout, created_at, expires_at, notified_at,
    settled_at, payload, channel
FROM django_stephooks_hook hook ORDER BY id
"""
EVENTS = """
SELECT id, run_id, type, event.call, data, {committed} AS at FROM django_stephooks_event event ORDER BY id
"""
CHECKPOINTS = "SELECT id, run_id, saved.call FROM django_stephooks_stepcheckpoint saved ORDER BY id"
STATES = """
SELECT id, kind, row_id, status, turn, due_at, payload, expires_at, notified_at, {committed} AS at
FROM chaos_history ORDER BY id
"""


@dataclass
class Records:
    """Rows as dictionaries; times as Unix times, recorded values as parsed JSON."""

    runs: list[Row] = field(default_factory=list)
    hooks: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    checkpoints: list[Row] = field(default_factory=list)
    states: list[Row] = field(default_factory=list)

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(vars(self)))

    @classmethod
    def load(cls, path: Path) -> Records:
        return cls(**json.loads(path.read_text()))


def read(cursor: Any, *, with_history: bool = True) -> Records:
    """From any DB-API cursor; commit times and history only where they are kept."""
    committed = COMMITTED if with_history else "created_at"
    return Records(
        runs=_rows(cursor, RUNS),
        hooks=_rows(cursor, HOOKS),
        events=_rows(cursor, EVENTS.format(committed=committed)),
        checkpoints=_rows(cursor, CHECKPOINTS),
        states=_rows(cursor, STATES.format(committed=committed)) if with_history else [],
    )


def _rows(cursor: Any, query: str) -> list[Row]:
    cursor.execute(query)
    names = [column[0] for column in cursor.description]
    return [
        {name: _value(name, value) for name, value in zip(names, row, strict=True)}
        for row in cursor.fetchall()
    ]


def _value(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name == "at" or name.endswith("_at"):
        return _time(value)
    if name in ("result", "error", "payload", "data"):
        return json.loads(value)
    if name == "public_id":
        return str(UUID(str(value)))  # not every database knows such a type
    return value if isinstance(value, int) else str(value)


def _time(value: Any) -> float:
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
