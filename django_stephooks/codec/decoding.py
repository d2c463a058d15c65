"""Trees of what JSON has as the values that they were; called by `codec.loads`.

Nothing is unpickled, and nothing that the text names is called. The one thing that it can name is
a pydantic model class, whose instance is filled with the recorded state.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django_stephooks.exceptions import SerializationError
from django_stephooks.types import STEP_HOOK_TIMEOUT

from .classes import is_pydantic_class, load_class
from .encoding import AROUND, MAX_DEPTH, TAG

MAX_DEPTH_READ = MAX_DEPTH + AROUND


class TooDeep(ValueError):
    """A stored value is nested deeper than any that is written."""


def decode(node: Any, depth: int = 0) -> Any:
    """The value of a parsed tree, which is taken over and changed in place.

    `depth` is counted as when it was written: a kind and its items are one level.
    """
    if type(node) is list:
        _check_depth(depth)
        for index, item in enumerate(node):
            if type(item) is dict or type(item) is list:
                node[index] = decode(item, depth + 1)
    elif type(node) is dict:
        if TAG in node:
            return _decode_tagged(node, depth)
        _check_depth(depth)
        for key, item in node.items():
            if type(item) is dict or type(item) is list:
                node[key] = decode(item, depth + 1)
    return node


def is_too_deep(tree: Any) -> bool:
    """Whether a tree that has no kinds in it is nested deeper than any that is written."""
    level = [tree] if type(tree) in (dict, list) else []
    for _ in range(MAX_DEPTH_READ):
        if not level:
            return False
        items = (node.values() if type(node) is dict else node for node in level)
        level = [item for some in items for item in some if type(item) is dict or type(item) is list]
    return bool(level)


def _check_depth(depth: int) -> None:
    if depth >= MAX_DEPTH_READ:
        raise TooDeep


def _decode_tagged(node: dict[str, Any], depth: int) -> Any:
    tag = node[TAG]
    decoder = _DECODERS.get(tag) if type(tag) is str else None
    if decoder is None:
        raise SerializationError(
            f"A stored value is of the kind {json.dumps(tag)[:40]}, which this version does not "
            "know. Was it written by a newer one?"
        )
    try:
        return decoder(node, depth)
    except (SerializationError, RecursionError, TooDeep):
        raise
    except Exception:  # noqa: BLE001  (a class of the project's may raise anything when it is hashed)
        # Without the cause: it quotes the data, which belongs in no log.
        raise SerializationError(f"A stored value of the kind {tag!r} can not be read.") from None


def _decode_datetime(node: dict[str, Any]) -> datetime:
    found: datetime = _decode_moment(datetime.fromisoformat(node["v"]), node)
    if found.tzinfo is None:
        raise ValueError("no time zone")
    return found


def _decode_moment(moment: Any, node: dict[str, Any]) -> Any:
    if "z" in node:
        moment = moment.replace(tzinfo=ZoneInfo(node["z"]))
    elif "o" in node:
        offset = timedelta(microseconds=node["o"])
        zone = timezone(offset, node["n"]) if "n" in node else timezone(offset)
        moment = moment.replace(tzinfo=zone)
    return moment.replace(fold=1) if "f" in node else moment


def _decode_pairs(pairs: Any, depth: int) -> dict[Any, Any]:
    _check_depth(depth)
    return {decode(key, depth + 1): decode(item, depth + 1) for key, item in pairs}


def _decode_model(node: dict[str, Any], depth: int) -> Any:
    path = str(node["c"])
    try:
        cls: Any = load_class(path)
    except ImportError as error:
        raise SerializationError(f"A stored {path} can not be read: {error}") from None
    if not is_pydantic_class(cls):
        raise SerializationError(f"A stored {path} can not be read: it is not a pydantic model.")
    fields, extra, private = (decode(node.get(part, {}), depth) for part in "vxp")
    if fields.keys() != cls.model_fields.keys():
        known = {name: fields[name] for name in fields if name in cls.model_fields}
        return _validated(cls, path, {**extra, **known})
    model = cls.__new__(cls)
    sys.modules["pydantic"].BaseModel.__setstate__(
        model,
        {
            "__dict__": fields,
            "__pydantic_fields_set__": set(node.get("s", fields)),
            "__pydantic_extra__": extra if cls.model_config.get("extra") == "allow" else None,
            "__pydantic_private__": private if cls.__private_attributes__ else None,
        },
    )
    return model


def _validated(cls: Any, path: str, values: dict[str, Any]) -> Any:
    """The model as its class is now, which has other fields: new ones get their defaults."""
    try:
        return cls.model_validate(values, by_name=True)
    except sys.modules["pydantic"].ValidationError as error:
        fields = ", ".join(sorted({".".join(map(str, item["loc"])) for item in error.errors()}))
    raise SerializationError(f"A stored {path} does not fit its class as it is now: {fields}.")


_DECODERS: dict[str, Callable[[dict[str, Any], int], Any]] = {
    "str": lambda node, depth: "".join(node["v"]),
    "int": lambda node, depth: int(node["v"], 16),
    "float": lambda node, depth: float(node["v"]),
    "dict": lambda node, depth: _decode_pairs(node["v"], depth),
    "tuple": lambda node, depth: tuple(decode(node["v"], depth)),
    "set": lambda node, depth: set(decode(node["v"], depth)),
    "frozenset": lambda node, depth: frozenset(decode(node["v"], depth)),
    "datetime": lambda node, depth: _decode_datetime(node),
    "date": lambda node, depth: date.fromisoformat(node["v"]),
    "time": lambda node, depth: _decode_moment(time.fromisoformat(node["v"]), node),
    "timedelta": lambda node, depth: timedelta(*node["v"]),
    "decimal": lambda node, depth: Decimal(node["v"]),
    "uuid": lambda node, depth: UUID(node["v"]),
    "bytes": lambda node, depth: base64.b64decode(node["v"], validate=True),
    "timeout": lambda node, depth: STEP_HOOK_TIMEOUT,
    "model": _decode_model,
}
