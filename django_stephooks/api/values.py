"""Recorded values as plain JSON, to be read by other programs.

What JSON has is as it is, so a payload is what the answer was. Of the rest, numbers that JSON has
not, dates and times, UUIDs and decimals are strings; bytes are base64; sets and tuples are lists;
keys are strings; pydantic models are objects with their fields.
"""

from __future__ import annotations

import base64
import json
import math
from datetime import date, time, timedelta
from typing import Any

from django.utils.duration import duration_iso_string

from django_stephooks.codec.classes import is_pydantic

# Longer ones are hexadecimal strings: Python writes only so many digits, others read fewer.
_BIG = 1 << 2000


def plain(value: Any) -> Any:
    """A value of our records as what JSON has."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if -_BIG < value < _BIG else hex(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, dict):
        return {_key(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item) for item in value), key=json.dumps)
    if is_pydantic(value):
        fields = {name: value.__dict__[name] for name in type(value).model_fields if name in value.__dict__}
        return plain({**fields, **(value.__pydantic_extra__ or {})})
    return _text(value)


def _key(key: Any) -> str:
    shown = plain(key)
    return shown if isinstance(shown, str) else json.dumps(shown)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return duration_iso_string(value)
    return str(value)
