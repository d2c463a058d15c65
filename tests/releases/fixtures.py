"""The rows of a release as a file, and back into a database at the migration that they were made at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.apps import apps
from django.core.management import call_command
from django.core.management.color import no_style
from django.db import connection, models
from django.db.migrations.executor import MigrationExecutor

from django_stephooks.links import make_link_token

APP = "django_stephooks"
HERE = Path(__file__).parent
ROOT = HERE.parent.parent
RECIPIENT = "dana@news.example"
# In the order in which rows point to each other.
MODELS = ("Run", "Hook", "Event", "StepCheckpoint", "Sweep")


def releases() -> list[Path]:
    return sorted(HERE.glob("*.json"))


def latest_migration() -> str:
    ((_, name),) = MigrationExecutor(connection).loader.graph.leaf_nodes(APP)
    return str(name)


def dump(path: Path) -> None:
    """Write all rows of this package, with what is recorded as the text that is stored."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for name in MODELS:
        model = apps.get_model(APP, name)
        fields = model._meta.concrete_fields
        rows[name] = [
            {field.attname: _plain(field, row) for field in fields}
            for row in model._default_manager.order_by("pk")
        ]
    waiting = apps.get_model(APP, "Hook").objects.pending()
    made = {
        "migration": latest_migration(),
        "rows": rows,
        # What is in mails that people have got: of the SECRET_KEY of the tests.
        "tokens": {str(hook.public_id): hook.token for hook in waiting},
        "links": {str(hook.public_id): make_link_token(hook, RECIPIENT) for hook in waiting},
    }
    # Tracebacks name the place where this was made.
    text = json.dumps(made, indent=1, ensure_ascii=True).replace(f"{ROOT}/", "")
    path.write_text(f"{text}\n")


def _plain(field: models.Field[Any, Any], row: models.Model) -> Any:
    if field.value_from_object(row) is None:
        return None
    value = field.value_to_string(row)
    return int(value) if isinstance(field, models.IntegerField | models.ForeignKey) else value


def load(path: Path) -> dict[str, Any]:
    """Put the rows where that release had them, then migrate to where this one is; returns the whole file."""
    made: dict[str, Any] = json.loads(path.read_text())
    newer = made["migration"] != latest_migration()
    if newer:
        call_command("migrate", APP, made["migration"], verbosity=0)
    state = MigrationExecutor(connection).loader.project_state((APP, made["migration"]))
    for name in MODELS:
        model = state.apps.get_model(APP, name)
        fields = {field.attname: field for field in model._meta.concrete_fields}
        model._base_manager.bulk_create(
            model(**{column: _value(fields[column], value) for column, value in row.items()})
            for row in made["rows"][name]
        )
        _continue_keys_behind(model)
    if newer:
        call_command("migrate", APP, verbosity=0)
    return made


def _continue_keys_behind(model: type[models.Model]) -> None:
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), [model]):
            cursor.execute(statement)


def _value(field: models.Field[Any, Any], value: Any) -> Any:
    if value is None:
        return None
    return field.to_python(value)  # of what is recorded, the text as it was stored
