"""Is everything there that runs need? Asked by `stephooks_doctor`, answered line by line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from django.db import DatabaseError, connections
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from django_stephooks.conf import app_settings
from django_stephooks.durations import describe, parse_duration
from django_stephooks.models import Hook, Run, Sweep
from django_stephooks.models.transactions import write_alias
from django_stephooks.runtimes.base import get_runtime


@dataclass(frozen=True, kw_only=True)
class Finding:
    """`ok`, or `text` says what to do."""

    ok: bool
    subject: str
    text: str


def diagnose() -> Iterator[Finding]:
    """What is there and what is missing; stops at a database that does not answer."""
    try:
        yield from _database()
        queues = sorted({app_settings.QUEUE, *_queues_in_use()})
        yield from _runtime(queues)
        yield _last_sweep()
        yield _overdue()
        yield from _stuck()
    except DatabaseError as error:
        yield Finding(ok=False, subject="database", text=f"{error}. Start it, or run `manage.py migrate`.")


def _database() -> Iterator[Finding]:
    connection = connections[write_alias()]
    executor = MigrationExecutor(connection)
    targets = [key for key in executor.loader.graph.leaf_nodes() if key[0] == "django_stephooks"]
    if executor.migration_plan(targets):
        yield Finding(
            ok=False, subject="database", text="There are migrations to apply: `manage.py migrate`."
        )
    else:
        yield Finding(ok=True, subject="database", text=f"{connection.vendor}, migrated")


def _queues_in_use() -> list[str]:
    runs = Run.objects.using(write_alias()).active().order_by()
    return list(runs.values_list("queue", flat=True).distinct())


def _runtime(queues: list[str]) -> Iterator[Finding]:
    for queue in queues:
        for ok, subject, text in get_runtime().diagnose(queue):
            yield Finding(ok=ok, subject=subject, text=text)


def _last_sweep() -> Finding:
    last = Sweep.objects.using(write_alias()).values_list("last_swept_at", flat=True).first()
    todo = "Start `manage.py stephooks_scheduler` and a worker, or `manage.py stephooks_sweep --loop`."
    if last is None:
        return Finding(ok=False, subject="last sweep", text=f"There never was one. {todo}")
    age = timedelta(seconds=max(1, round((timezone.now() - last).total_seconds())))
    ok = age < Sweep.OVERDUE
    text = f"{describe(age)} ago"
    if not ok:
        text = f"{text}: deadlines are not being enforced. {todo}"
    return Finding(ok=ok, subject="last sweep", text=text)


def _overdue() -> Finding:
    late = Hook.objects.using(write_alias()).past_deadline(timezone.now() - Sweep.OVERDUE).count()
    if late:
        return Finding(
            ok=False, subject="deadlines", text=f"{late} passed more than a minute ago and wait for a sweep."
        )
    return Finding(ok=True, subject="deadlines", text="none is overdue")


def _stuck() -> Iterator[Finding]:
    runs, now = Run.objects.using(write_alias()), timezone.now()
    grace = parse_duration(app_settings.READY_GRACE, name="READY_GRACE") + Sweep.OVERDUE
    ready = runs.ready().filter(due_at__lte=now - grace).count()
    if ready:
        yield Finding(
            ok=False,
            subject="ready runs",
            text=f"{ready} have waited for a worker for too long. Start workers.",
        )
    else:
        yield Finding(ok=True, subject="ready runs", text="none waits for a worker")
    crashed = runs.lease_ended(now - Sweep.OVERDUE).count()
    if crashed:
        yield Finding(
            ok=False, subject="crashed runs", text=f"{crashed} lost their worker and wait for a sweep."
        )
    else:
        yield Finding(ok=True, subject="crashed runs", text="none waits to be recovered")
