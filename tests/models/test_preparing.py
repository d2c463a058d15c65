"""Statements that are planned once: prepared where that is right, and ordinary everywhere else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_stephooks.models.preparing import MOST_PARAMETERS, cursor

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="Only PostgreSQL's are prepared."),
]


@pytest.fixture(autouse=True)
def none_prepared() -> Iterator[None]:
    with connection.cursor() as plain:
        plain.execute("DEALLOCATE ALL")
        connection.connection._prepared.clear()
        yield
        plain.execute("DEALLOCATE ALL")
        connection.connection._prepared.clear()


def run(sql: str, params: list[Any]) -> Any:
    with cursor(connection) as found:
        found.execute(sql, params)
        return found.fetchone()[0]


def prepared() -> list[str]:
    with connection.cursor() as plain:
        plain.execute("SELECT statement FROM pg_prepared_statements WHERE NOT from_sql ORDER BY 1")
        return [statement for (statement,) in plain.fetchall()]


def test_a_statement_is_prepared_once_and_used_again() -> None:
    assert [run("SELECT %s::int + 1", [number]) for number in (1, 2, 3)] == [2, 3, 4]
    assert len(prepared()) == 1


def test_the_connection_is_left_as_it_was() -> None:
    connection.ensure_connection()
    raw = connection.connection
    before = (raw.cursor_factory, raw.prepare_threshold)
    run("SELECT %s::int", [1])
    assert (raw.cursor_factory, raw.prepare_threshold) == before
    with connection.cursor() as plain:
        plain.execute("SELECT %s::int + 2", [1])
    assert len(prepared()) == 1


def test_statements_with_many_rows_are_not_prepared() -> None:
    params = list(range(MOST_PARAMETERS + 1))
    assert run(f"SELECT {' + '.join(['%s::int'] * len(params))}", params) == sum(params)
    assert not prepared()


def test_nothing_is_prepared_behind_a_pool_of_transactions() -> None:
    connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"] = True
    try:
        assert run("SELECT %s::int", [1]) == 1
    finally:
        connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"] = False
    assert not prepared()


def test_the_log_of_queries_shows_the_values() -> None:
    with CaptureQueriesContext(connection) as captured:
        run("SELECT %s::text", ["a value"])
    assert "a value" in captured[0]["sql"]
