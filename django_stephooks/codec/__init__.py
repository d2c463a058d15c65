"""Python values as JSON text and back, exactly: what the tables store.

JSON's own types are written as they are. The others are objects with the key "$t", which names
the kind: `{"$t": "decimal", "v": "1.50"}`. A dict that has such a key itself is written as pairs,
so nothing in the data can pass for a kind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django_stephooks.exceptions import SerializationError

from .classes import is_pydantic
from .decoding import MAX_DEPTH_READ, TooDeep, decode, is_too_deep
from .encoding import AROUND, MAX_DEPTH, TAG, Refused, encode, encode_plain

__all__ = ["MAX_DEPTH", "Encoded", "dumps", "dumps_plain", "dumps_whole", "loads", "printable"]

_SURROGATE = re.compile("[\ud800-\udfff]")
_UNPRINTABLE = re.compile("[\x00\ud800-\udfff]")

_to_text = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")
).encode


@dataclass(frozen=True, slots=True)
class Encoded:
    """The JSON text of a value in place of the value, for a RecordField that need not encode it."""

    text: str = field(repr=False)


def dumps(value: Any, *, root: str = "value", max_bytes: int | None = None, setting: str = "") -> str:
    """A value of our own records as JSON text.

    SerializationError, naming the path from `root`, for what would not come back as it is, and for
    more than `max_bytes` bytes of UTF-8 (`setting` is the name of the setting that says so).
    """
    return _write(value, encode, root, max_bytes, setting)


def dumps_whole(value: Any, *, root: str) -> str:
    """Like `dumps`, for a whole column: a few levels may stand around the value that was given to us."""
    return _write(value, encode, root, None, "", depth=-AROUND)


def dumps_plain(value: Any, *, root: str = "payload", max_bytes: int | None = None, setting: str = "") -> str:
    """Like `dumps`, but only for what JSON itself has: dicts with string keys, lists, strings,
    finite numbers, bools, None. `loads` gives it back equal, whatever its keys are.
    """
    return _write(value, encode_plain, root, max_bytes, setting)


def loads(text: str) -> Any:
    """The value that `dumps` or `dumps_plain` wrote; SerializationError if it can not be read.

    Nothing is read that is nested much deeper than they would have written it.
    """
    try:
        tree = json.loads(text)
        if f'"{TAG}"' in text:
            return decode(tree)
        # So few brackets can not be too deep; most values are not walked through.
        if text.count("[") + text.count("{") > MAX_DEPTH_READ and is_too_deep(tree):
            raise TooDeep
        return tree
    except (RecursionError, TooDeep):
        raise SerializationError("A stored value is nested too deep to be read.") from None
    except SerializationError:
        raise
    except (TypeError, ValueError):
        # Without the cause: it holds the data, which belongs in no log.
        raise SerializationError("A stored value is not JSON.") from None


def printable(value: Any) -> Any:
    """A copy to be shown: what no page can print (NUL, lone surrogates) is U+FFFD, in keys too."""
    if isinstance(value, str):
        return _UNPRINTABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_printable_key(key): printable(item) for key, item in value.items()}
    for kind in (list, tuple):
        if isinstance(value, kind):
            return kind(printable(item) for item in value)
    for unordered in (set, frozenset):
        if isinstance(value, unordered):
            return unordered(_printable_key(item) for item in value)
    if is_pydantic(value):
        return printable({**value.__dict__, **(value.__pydantic_extra__ or {})})
    return value


def _printable_key(value: Any) -> Any:
    """A printable copy that can be a key or stand in a set; of a pydantic model, its text."""
    shown = printable(value)
    try:
        hash(shown)
    except TypeError:
        try:
            return printable(str(value))
        except ValueError:
            # Python writes only so many digits of an integer.
            return type(value).__qualname__
    return shown


def _write(
    value: Any,
    encoder: Callable[[Any, int], Any],
    root: str,
    max_bytes: int | None,
    setting: str,
    *,
    depth: int = 0,
) -> str:
    try:
        text = _to_text(encoder(value, depth))
    except Refused as refused:
        raise SerializationError(refused.sentence(root)) from None
    except RecursionError:
        raise SerializationError(f"{root}: It is nested too deep, or contains itself.") from None
    size = len(text)
    if not text.isascii():
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            # No database takes a lone surrogate, but every one takes its JSON escape.
            text = _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
            size = len(text.encode())
    if max_bytes is not None and size > max_bytes:
        cap = f"the {max_bytes:,} that {setting} allows" if setting else f"{max_bytes:,}"
        raise SerializationError(
            f"{root}: It takes {size:,} bytes, more than {cap}. "
            "Keep the bulk elsewhere and pass a reference to it."
        )
    return text
