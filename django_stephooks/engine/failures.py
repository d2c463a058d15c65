"""Exceptions, written down and raised again.

A failed step raises the same class of exception in every turn, so that `except CardDeclined` in a
workflow means the same when it is replayed. Nothing is unpickled: the class is looked up among the
modules already imported, and must be an Exception.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Iterator
from typing import Any

from django_stephooks import codec
from django_stephooks.exceptions import SerializationError, StepFailedError

TRACEBACK_LIMIT = 20_000


def describe(error: BaseException) -> dict[str, Any]:
    """What is recorded of an exception: its class, message, arguments (if they can be stored), traceback."""
    text = "".join(traceback.format_exception(error))
    try:
        codec.dumps(error.args, max_bytes=20_000)
        args: Any = error.args
    except SerializationError:
        args = (_text(error),)
    return {
        "type": f"{type(error).__module__}:{type(error).__qualname__}",
        "message": _text(error)[:2000],
        "args": args,
        "traceback": text[-TRACEBACK_LIMIT:],
    }


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The exception, those that it was raised from or while handling, and those grouped in it."""
    waiting, seen = [error], set()
    while waiting:
        error = waiting.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        yield error
        waiting += [error.__cause__, error.__context__]
        if isinstance(error, BaseExceptionGroup):
            waiting += error.exceptions


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  (a broken __str__ must not hide the failure itself)
        return f"<{type(error).__qualname__} without a readable message>"


def rebuild(recorded: dict[str, Any]) -> Exception:
    """The exception to raise again; StepFailedError if its class is not to be had here."""
    module, _, qualname = recorded["type"].partition(":")
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if isinstance(found, type) and issubclass(found, Exception):
        # Not by calling it: an __init__ may want other arguments than those it handed on.
        with contextlib.suppress(Exception):
            error = found.__new__(found, *recorded["args"])
            error.args = tuple(recorded["args"])
            return error
    return StepFailedError(f"{qualname}: {recorded['message']}")
