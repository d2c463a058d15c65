"""Values as trees of what JSON has; called by `codec.dumps` and `codec.dumps_plain`.

Only exact types are written: a subclass would come back as something else than it was.
"""

from __future__ import annotations

import base64
import json
import math
import re
import sys
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django_stephooks.types import StepHookTimeout

from .classes import class_path, is_pydantic
from .refusals import not_plain, not_stored

TAG = "$t"
# A level of a value is up to three of its JSON, which Python parses recursively.
MAX_DEPTH = 100
# The journal puts a few levels around such a value.
AROUND = 10

# Python writes and reads only so many digits of an integer (sys.set_int_max_str_digits).
_BIG = 1 << 2000
# Two lone surrogates side by side, written as JSON escapes, would be read as one character.
_BETWEEN_SURROGATES = re.compile("(?<=[\ud800-\udbff])(?=[\udc00-\udfff])")
_NAME = re.compile(r"[^\W\d]\w{0,39}")

_Encode = Callable[[Any, int], Any]


class Refused(Exception):
    """A value that is not written; gathers its path, innermost piece first, on the way out."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.pieces: list[str] = []

    def sentence(self, root: str) -> str:
        pieces = self.pieces[::-1]
        if len(pieces) > 12:
            pieces = [*pieces[:6], "…"]
        return f"{root}{''.join(pieces)}: {self.reason}"


def encode(value: Any, depth: int) -> Any:
    """The tree of anything that our own records may hold."""
    kind = type(value)
    if kind is str:
        return value if _is_simple(value) else {TAG: "str", "v": _BETWEEN_SURROGATES.split(value)}
    if kind is int:
        return value if -_BIG < value < _BIG else {TAG: "int", "v": hex(value)}
    if kind is bool or value is None:
        return value
    if kind is float:
        return value if math.isfinite(value) else {TAG: "float", "v": repr(value)}
    if kind is dict:
        return _encode_dict(value, depth, encode)
    if kind is list:
        return _encode_items(value, depth, encode)
    if kind.__module__ == "freezegun.api":
        # In tests that freeze the time, the real functions give subclasses of date and datetime.
        kind = kind.__mro__[1]
    if (encoder := _ENCODERS.get(kind)) is not None:
        return encoder(value)
    if (tag := _COLLECTIONS.get(kind)) is not None:
        return {TAG: tag, "v": _encode_items(value, depth, encode, indexed=kind is tuple)}
    if is_pydantic(value):
        return _encode_model(value, depth)
    raise Refused(not_stored(value))


def encode_plain(value: Any, depth: int) -> Any:
    """The tree of what JSON itself has; nothing else is let in from outside."""
    kind = type(value)
    if kind is dict:
        for key in value:
            if type(key) is not str:
                raise Refused(f"JSON objects have strings as keys, not {type(key).__name__}; pass str(key).")
        return _encode_dict(value, depth, encode_plain)
    if kind is list:
        return _encode_items(value, depth, encode_plain)
    if kind in (str, int, bool) or value is None or (kind is float and math.isfinite(value)):
        return encode(value, depth)
    raise Refused(not_plain(value))


def _is_simple(text: str) -> bool:
    return text.isascii() or not _BETWEEN_SURROGATES.search(text)


def _are_simple(keys: Iterable[Any]) -> bool:
    """Whether all are strings that JSON can have as keys; mostly answered without a loop here."""
    if not set(map(type, keys)) <= {str}:
        return False
    return "".join(keys).isascii() or all(map(_is_simple, keys))


def _check_depth(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise Refused(f"It is nested more than {MAX_DEPTH} levels deep, or contains itself.")


def _encode_items(items: Iterable[Any], depth: int, encode: _Encode, *, indexed: bool = True) -> list[Any]:
    _check_depth(depth)
    nodes: list[Any] = []
    try:
        for item in items:
            nodes.append(encode(item, depth + 1))
    except Refused as refused:
        if indexed:
            refused.pieces.append(f"[{len(nodes)}]")
        raise
    return nodes


def _encode_dict(items: dict[Any, Any], depth: int, encode: _Encode) -> dict[str, Any]:
    _check_depth(depth)
    key: Any = None
    try:
        if TAG not in items and _are_simple(items):
            node = {}
            for key, item in items.items():
                node[key] = encode(item, depth + 1)
            return node
        pairs = []
        for key, item in items.items():
            pairs.append([_encode_key(key, depth + 1), encode(item, depth + 1)])
        return {TAG: "dict", "v": pairs}
    except Refused as refused:
        refused.pieces.append(_piece(key))
        raise


def _encode_key(key: Any, depth: int) -> Any:
    try:
        return encode(key, depth)
    except Refused as refused:
        raise Refused(f"(as a key) {refused.reason}") from None


def _piece(key: Any) -> str:
    if type(key) is str:
        return f".{key}" if _NAME.fullmatch(key) else f"[{json.dumps(key[:40])}]"
    short = type(key) is int and -(10**9) < key < 10**9
    return f"[{key}]" if short else f"[{type(key).__name__}]"


def _encode_datetime(value: datetime) -> dict[str, Any]:
    if value.tzinfo is None:
        raise Refused("Naive datetimes are not stored; use an aware datetime (django.utils.timezone.now()).")
    return _encode_moment("datetime", value)


def _encode_moment(tag: str, value: Any) -> dict[str, Any]:
    """The wall clock, and its zone by name or offset: what a pickle would hold."""
    zone = value.tzinfo
    node: dict[str, Any] = {TAG: tag, "v": value.replace(tzinfo=None).isoformat()}
    if type(zone) is timezone:
        # In microseconds: Python takes "+00:00:00.5" for UTC.
        offset = zone.utcoffset(None)
        node["o"] = offset // timedelta.resolution
        if (name := zone.tzname(None)) != timezone(offset).tzname(None):
            node["n"] = name
    elif type(zone) is ZoneInfo and zone.key is not None:
        node["z"] = zone.key
    elif zone is not None:
        name = f"{type(zone).__module__}.{type(zone).__qualname__}"
        raise Refused(
            f"Time zones of type {name} are not stored; "
            "use a zoneinfo.ZoneInfo with a key, or datetime.timezone.utc."
        )
    return {**node, "f": 1} if value.fold else node


_ENCODERS: dict[type, Callable[[Any], dict[str, Any]]] = {
    datetime: _encode_datetime,
    date: lambda value: {TAG: "date", "v": value.isoformat()},
    time: lambda value: _encode_moment("time", value),
    timedelta: lambda value: {
        TAG: "timedelta",
        "v": [value.days, value.seconds, value.microseconds],
    },
    Decimal: lambda value: {TAG: "decimal", "v": str(value)},
    UUID: lambda value: {TAG: "uuid", "v": value.hex},
    bytes: lambda value: {TAG: "bytes", "v": base64.b64encode(value).decode()},
    StepHookTimeout: lambda value: {TAG: "timeout"},
}
_COLLECTIONS: dict[type, str] = {tuple: "tuple", set: "set", frozenset: "frozenset"}


def _encode_model(value: Any, depth: int) -> dict[str, Any]:
    """The state that pydantic itself pickles: loading runs no validator, which might change it."""
    cls = type(value)
    try:
        node: dict[str, Any] = {TAG: "model", "c": class_path(cls)}
    except ValueError as error:
        raise Refused(str(error)) from None
    if missing := [name for name in cls.model_fields if name not in value.__dict__]:
        raise Refused(f"This {cls.__qualname__} was made without its field {missing[0]}.")
    state = sys.modules["pydantic"].BaseModel.__getstate__(value)
    # Not all of __dict__, which holds cached properties as well.
    fields = {name: value.__dict__[name] for name in cls.model_fields}
    node["v"] = _encode_dict(fields, depth, encode)
    if (fields_set := state["__pydantic_fields_set__"]) != cls.model_fields.keys():
        node["s"] = sorted(fields_set)
    for short, part in (("x", "__pydantic_extra__"), ("p", "__pydantic_private__")):
        if state[part]:
            node[short] = _encode_dict(state[part], depth, encode)
    return node
