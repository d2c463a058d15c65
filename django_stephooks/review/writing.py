"""Cleaned values of Django's form fields as the JSON that the same fields would take again."""

from __future__ import annotations

import json
from datetime import date, datetime, time, timedelta
from typing import Any

from django import forms
from django.db.models import Model, QuerySet
from django.utils.duration import duration_string


def as_json(field: forms.Field, value: Any) -> Any:
    """A value as plain JSON. Dates are ISO, whatever the language of the page was; rows are their keys."""
    if isinstance(field, forms.JSONField):
        # A text would be read as JSON once more.
        return json.dumps(str(value)) if isinstance(value, str) else value
    if isinstance(value, (Model, QuerySet)):
        value = field.prepare_value(value)
    return _plain(value)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return duration_string(value)
    return str(value)
