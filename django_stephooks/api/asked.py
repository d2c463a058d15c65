"""What a hook's payload must be, as JSON Schema, for programs that make a form of it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.forms.utils import pretty_name

from django_stephooks.codec.classes import is_pydantic_class

_TYPES: tuple[tuple[type[forms.Field], str], ...] = (
    (forms.NullBooleanField, ""),
    (forms.BooleanField, "boolean"),
    (forms.DecimalField, ""),
    (forms.FloatField, "number"),
    (forms.IntegerField, "integer"),
    (forms.MultipleChoiceField, "array"),
    (forms.CharField, "string"),
)


def json_schema(schema: Any) -> dict[str, Any] | None:
    """Pydantic's own; for a form its fields with what is plain about them. None for no schema."""
    if schema is None:
        return None
    if is_pydantic_class(schema):
        try:
            found: dict[str, Any] = schema.model_json_schema()
        except Exception:  # noqa: BLE001  (a model may have types that JSON Schema has no words for)
            return {"title": schema.__name__}
        return found
    fields = schema().fields
    return {
        "title": schema.__name__,
        "type": "object",
        "properties": {name: _property(name, field) for name, field in fields.items()},
        "required": [name for name, field in fields.items() if field.required],
    }


def _property(name: str, field: forms.Field) -> dict[str, Any]:
    found: dict[str, Any] = {"title": str(field.label or pretty_name(name))}
    if kind := next((kind for cls, kind in _TYPES if isinstance(field, cls)), ""):
        found["type"] = kind
    if field.help_text:
        found["description"] = str(field.help_text)
    return found
