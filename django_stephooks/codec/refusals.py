"""Why the codec does not store a value, and what to pass in its place, as sentences."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import math
from typing import Any

from django.db.models import Manager, Model, QuerySet
from django.utils.functional import Promise

# Subclasses of these would come back as something else than they were.
_BASES: tuple[tuple[type, str], ...] = (
    (str, '"".join(value)'),
    (bool, "bool(value)"),
    (int, "int(value)"),
    (float, "float(value)"),
    (dict, "dict(value)"),
    (list, "list(value)"),
    (tuple, "tuple(value)"),
    (set, "set(value)"),
    (frozenset, "frozenset(value)"),
    (bytes, "bytes(value)"),
)


def not_stored(value: Any) -> str:
    """Why this value is in none of our records."""
    if isinstance(value, type):
        return "Classes are not stored; pass plain data."
    if isinstance(value, Model):
        return "Model instances are not stored; pass the pk."
    if isinstance(value, (QuerySet, Manager)):
        return 'Querysets are not stored; pass their pks: list(queryset.values_list("pk", flat=True)).'
    if isinstance(value, Promise):
        return "Lazy strings are not stored; pass str(value)."
    if isinstance(value, enum.Enum):
        return "Enum members are not stored; pass value.value."
    if inspect.isawaitable(value):
        return "Coroutines are not stored; await it first."
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if dataclasses.is_dataclass(value):
        return f"Dataclasses ({name}) are not stored; pass dataclasses.asdict(value)."
    for base, remedy in _BASES:
        if isinstance(value, base):
            return f"Subclasses of {base.__name__} ({name}) are not stored; pass {remedy}."
    if isinstance(value, (bytearray, memoryview)):
        return f"Values of type {type(value).__name__} are not stored; pass bytes(value)."
    return f"Values of type {name} are not stored; pass plain data that it can be rebuilt from."


def not_plain(value: Any) -> str:
    """Why this value is not in a payload, which is JSON and nothing else."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value} is not JSON; pass null or a string."
    if type(value) in (tuple, set, frozenset):
        return f"A {type(value).__name__} is not JSON; pass list(value)."
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    return (
        f"Values of type {name} are not JSON; "
        "pass dicts with string keys, lists, strings, numbers, bools or None."
    )
