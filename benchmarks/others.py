"""Other runs that wait while something is measured: copies of one that the engine itself suspended."""

from __future__ import annotations

from typing import Any

from django.db import models

from django_stephooks.models import Run

from .database import TABLES, query, tidy, write_back


def copy_run(run: Run, count: int) -> None:
    """Store `count` runs as this one is, with its hooks, journal and checkpoint, behind it."""
    for model in TABLES:
        fields = [field for field in model._meta.concrete_fields if model is Run or not field.primary_key]
        columns = ", ".join(field.column for field in fields)
        values = ", ".join(_value(field) for field in fields)
        key = "id" if model is Run else "run_id"
        query(
            f"INSERT INTO {model._meta.db_table} ({columns}) SELECT {values}"  # noqa: S608
            f" FROM {model._meta.db_table}, generate_series(1, %s) AS copy"
            f" WHERE {key} = %s ORDER BY copy, id",
            count,
            run.pk,
        )
    table = Run._meta.db_table
    query(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table}")  # noqa: S608
    tidy()
    write_back()


def _value(field: models.Field[Any, Any]) -> str:
    if isinstance(field, models.UUIDField):
        return "gen_random_uuid()"
    is_run = field.primary_key or field.column == "run_id"
    return f"{field.column} + copy" if is_run else field.column
