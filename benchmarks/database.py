"""The database that is measured: made from nothing, filled, looked into, dropped."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from django.core.management import call_command
from django.db import ProgrammingError, connection
from django.db.backends.postgresql.psycopg_any import sql

from django_stephooks.models import Event, Hook, Run, StepCheckpoint

# Rarely enough to disturb nobody; a figure is too high by at most this, and by half of it on average.
POLL_SECONDS = 0.02
PATIENCE_SECONDS = 300
TABLES = (Run, Event, Hook, StepCheckpoint)
RUNS = Run._meta.db_table


class NotDoneError(Exception):
    """The runs did not come to where they should be: there is nothing to measure."""


@contextlib.contextmanager
def fresh_database() -> Iterator[None]:
    """A database with empty tables, dropped at the end."""
    name = sql.Identifier(connection.settings_dict["NAME"])
    drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name)
    with connection._nodb_cursor() as cursor:
        cursor.execute(drop)
        cursor.execute(sql.SQL("CREATE DATABASE {}").format(name))
    try:
        call_command("migrate", verbosity=0)
        yield
    finally:
        connection.close()
        with connection._nodb_cursor() as cursor:
            cursor.execute(drop)


def query(statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []


def empty() -> None:
    query(f"TRUNCATE {', '.join(model._meta.db_table for model in TABLES)} RESTART IDENTITY CASCADE")
    tidy()


def tidy() -> None:
    """What PostgreSQL does by itself where autovacuum is on."""
    for model in TABLES:
        query(f"VACUUM ANALYZE {model._meta.db_table}")


def write_back() -> None:
    """Have PostgreSQL write what was stored in bulk now, and not while something is measured."""
    with contextlib.suppress(ProgrammingError):  # not everybody may ask for that
        query("CHECKPOINT")


def forget(after: int) -> None:
    """Remove the runs behind this one: each repetition finds what the one before it found."""
    for model in reversed(TABLES):
        column = "id" if model is Run else "run_id"
        query(f"DELETE FROM {model._meta.db_table} WHERE {column} > %s", after)  # noqa: S608
    tidy()


def size() -> int:
    """Bytes of our tables with their indexes."""
    tables = [model._meta.db_table for model in TABLES]
    return sum(query("SELECT pg_total_relation_size(%s)", name)[0][0] for name in tables)


def last_run() -> int:
    """The key of the newest run: what is measured next comes behind it."""
    return Run.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


def wait_until_settled(count: int, status: str, *, after: int) -> float:
    """Wait until `count` runs behind the run `after` have this status; returns when that was seen."""
    # From the newest down, because that one is worked on last: so the look costs next to nothing.
    busy = (
        f"SELECT 1 FROM {RUNS} WHERE id > %s AND status NOT IN (%s, 'failed')"  # noqa: S608
        " ORDER BY id DESC LIMIT 1"
    )
    deadline = time.monotonic() + PATIENCE_SECONDS
    while query(busy, after, status):
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_SECONDS)
    seen_at = time.monotonic()
    found = Run.objects.filter(pk__gt=after, status=status).count()
    if found != count:
        statuses = query(
            f"SELECT status, count(*) FROM {RUNS} WHERE id > %s GROUP BY status",  # noqa: S608
            after,
        )
        raise NotDoneError(f"{count} runs should be {status}; they are {dict(statuses)}.")
    return seen_at
