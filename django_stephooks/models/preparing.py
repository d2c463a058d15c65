"""A cursor that has the server prepare its statements: planned once for each connection."""

from __future__ import annotations

from typing import Any

# Like Django: psycopg if it is there, else psycopg2. Neither is needed for other databases.
try:
    import psycopg
except ImportError:
    has_psycopg3 = False
else:
    has_psycopg3 = True

# Statements with more parameters have many rows, hardly ever the same number twice, and are few.
MOST_PARAMETERS = 80

if has_psycopg3:

    class PreparingCursor(psycopg.Cursor[Any]):
        def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
            if len(params or ()) > MOST_PARAMETERS:
                return super().execute(query, params, **options)
            # Django switches preparing off for the whole connection; it is on for this statement only.
            usual, self.connection.prepare_threshold = self.connection.prepare_threshold, 0
            try:
                return super().execute(query, params, prepare=True, **options)
            finally:
                self.connection.prepare_threshold = usual


def cursor(connection: Any) -> Any:
    """Like `connection.cursor()`: the same wrappers, health checks and log.

    An ordinary one with psycopg2; where each transaction may meet another connection of the server's
    (PgBouncer), which Django's DISABLE_SERVER_SIDE_CURSORS tells; and for Django's log of queries, which
    would not see the values.
    """
    pooled = connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS")
    if not has_psycopg3 or pooled or connection.queries_logged:
        return connection.cursor()
    connection.ensure_connection()
    raw = connection.connection
    usual, raw.cursor_factory = raw.cursor_factory, PreparingCursor
    try:
        return connection.cursor()
    finally:
        raw.cursor_factory = usual
