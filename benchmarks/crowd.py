"""A million rows in a minute: runs, hooks and events as years of work leave them behind (PostgreSQL).

Filled by the server itself with its indexes and foreign keys taken away meanwhile. Rare ones are
the oldest, where a list that begins at its newest row finds them last.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.contrib.contenttypes.models import ContentType
from django.db import connection

from django_stephooks.models import Event, Hook, Run

# What the n-th of `total` runs has become.
KIND = """
    CASE WHEN {waits} THEN 'waiting'
         WHEN n <= {total} / 500 THEN 'cancelled'
         WHEN n <= {total} / 200 THEN 'failed'
         WHEN n % 100 = 1 THEN 'expired'
         ELSE 'completed' END
"""

RUNS = """
INSERT INTO django_stephooks_run (
    id, public_id, workflow, queue, key, status, turn, recoveries, max_recoveries, due_at,
    arguments, result, error, created_at, finished_at, started_by_id, subject_type_id, subject_id)
SELECT n, gen_random_uuid(),
    CASE WHEN n <= {total} / 300 THEN 'shop.workflows.of_old'
         WHEN n % 20 = 7 THEN 'shop.workflows.refund'
         ELSE 'newsroom.workflows.publish_story' END,
    'default', CASE WHEN n % 3 = 0 THEN 'key-' || n END,
    CASE kind WHEN 'waiting' THEN 'suspended' WHEN 'expired' THEN 'completed' ELSE kind END,
    2, 0, 3, NULL, '{{"story_id":' || n || ',"note":"' || repeat('x', 80) || '"}}',
    CASE WHEN kind IN ('completed', 'expired') THEN '{{"published":true}}' END,
    CASE kind WHEN 'failed' THEN '{{"type":"builtins:ValueError","message":"It went wrong."}}' END,
    at, CASE WHEN kind <> 'waiting' THEN at + interval '1 hour' END,
    NULL, {subject_type}, (n % 100000)::text
FROM (SELECT n, {kind} AS kind, now() - interval '30 minutes' * ({total} - n + 4) AS at
      FROM generate_series(1, {total}) AS n) AS made
"""

# Of those that wait: 2 of 5 without a deadline, 1 of 20 overdue and still to be answered.
HOOKS = """
INSERT INTO django_stephooks_hook (
    id, public_id, run_id, call, name, status, title, description, context, reviewers, schema, on_timeout,
    created_at, expires_at, notified_at, settled_at, payload, answered_by_id, answered_by_label, channel,
    token_version)
SELECT n, gen_random_uuid(), n, 'human_review:1',
    CASE WHEN n % 20 = 7 THEN 'sign_off' ELSE 'human_review' END,
    CASE kind WHEN 'waiting' THEN 'pending' WHEN 'completed' THEN 'received' WHEN 'failed' THEN 'received'
         ELSE kind END,
    'Publish story ' || n || '?', '', '{{"draft":"' || repeat('lorem ', 60) || '"}}',
    CASE WHEN n % 2 = 0 THEN '["group:' || n % 50 || '","user:' || n % 1000 + 100 || '"]' END,
    '', CASE WHEN (n / 100) % 20 = 3 THEN 'suspend' ELSE 'raise' END,
    at, CASE WHEN kind <> 'waiting' THEN at + interval '1 day'
             WHEN (n / 100) % 20 = 3 THEN at + interval '1 second'
             WHEN (n / 100) % 5 < 3 THEN now() + interval '1 hour' + n * interval '1 second' END,
    at, CASE WHEN kind <> 'waiting' THEN at + interval '1 hour' END,
    CASE WHEN kind IN ('completed', 'failed') THEN '{{"approved":true,"comment":""}}' END,
    NULL, CASE WHEN kind = 'completed' THEN 'dana' ELSE '' END, '', 1
FROM (SELECT n, {kind} AS kind, now() - interval '30 minutes' * ({total} - n + 4) AS at
      FROM generate_series(1, {total}) AS n) AS made
"""

EVENTS = """
INSERT INTO django_stephooks_event (run_id, type, call, data, created_at)
SELECT n, type, call, '{{}}', now() - interval '30 minutes' * ({total} - n + 4)
FROM generate_series(1, {total}) AS n, (VALUES
    ('run_started', '', 0), ('step_started', 'review:1', 0), ('hook_created', 'review:1/human_review:1', 0),
    ('run_suspended', '', 0), ('hook_received', 'review:1/human_review:1', 1), ('run_completed', '', 1)
) AS told (type, call, later)
WHERE later = 0 OR NOT ({waits})
"""


def fill(total: int = 1_000_000, *, waiting: int = 50_000) -> None:
    """Empty the tables and fill them: `total` runs, a hook each, 6 events each (4 of one that waits).

    Of those that wait, nine in ten are among the newest tenth; the others anywhere before.
    """
    waits = f"CASE WHEN n > {total * 9 // 10} THEN n % 100 < {900 * waiting // total} "
    waits += f"ELSE n % {9 * total // waiting} = 0 END"
    made = {"total": total, "waits": "true" if waiting == total else waits}
    made["kind"] = KIND.format(**made)
    made["subject_type"] = ContentType.objects.get_for_model(ContentType).pk
    names = [model._meta.db_table for model in (Run, Hook, Event)]
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off; SET maintenance_work_mem = '256MB'")
        # With all that belongs to runs.
        cursor.execute(f"TRUNCATE {names[0]} CASCADE")
        with _bare(cursor, names):
            for statement in (RUNS, HOOKS, EVENTS):
                cursor.execute(statement.format(**made))
        for name in names[:2]:
            cursor.execute(f"SELECT setval(pg_get_serial_sequence('{name}', 'id'), {total})")
        cursor.execute("RESET synchronous_commit; RESET maintenance_work_mem")
        for name in names:
            cursor.execute(f"VACUUM ANALYZE {name}")


@contextmanager
def _bare(cursor: Any, tables: list[str]) -> Iterator[None]:
    """Without foreign keys, unique constraints and indexes, but for the primary keys."""
    cursor.execute(
        "SELECT conrelid::regclass::text, quote_ident(conname), pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE conrelid = ANY (%s::regclass[]) AND contype IN ('f', 'u') ORDER BY contype DESC",
        [tables],
    )
    constraints = cursor.fetchall()
    cursor.execute(
        "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index "
        "WHERE indrelid = ANY (%s::regclass[]) "
        "AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)",
        [tables],
    )
    indexes = cursor.fetchall()
    for table, name, _definition in constraints:
        cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
    for name, _definition in indexes:
        cursor.execute(f"DROP INDEX {name}")
    yield
    for _name, definition in indexes:
        cursor.execute(definition)
    for table, name, definition in constraints:
        cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}")
