"""What a reviewer is given to decide: as a table, or as what changes, and as it was recorded."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import Any

from django_stephooks.codec import printable
from django_stephooks.exceptions import SerializationError
from django_stephooks.models import Hook

from .diff import Diff, compare
from .values import Shown, printable_text, read, show

MAX_RAW = 100_000


@dataclass(frozen=True, kw_only=True)
class Context:
    """A hook's context: what changes, if it tells of a change; the rest; and its raw text, cut if need be."""

    diff: Diff | None = None
    rest: Shown | None = None
    raw: str = ""
    raw_is_cut: bool = False


def read_context(hook: Hook) -> Context | None:
    """None if nothing was given."""
    raw = _recorded(hook)
    as_recorded: dict[str, Any] = {"raw": raw[:MAX_RAW], "raw_is_cut": len(raw) > MAX_RAW}
    try:
        context = hook.context
    except SerializationError:
        return Context(rest=read(hook, "context"), **as_recorded)
    if context is None:
        return None
    if not (isinstance(context, dict) and {"before", "after"} <= context.keys()):
        return Context(rest=show(context), **as_recorded)
    context = printable(context)
    rest = {key: value for key, value in context.items() if key not in ("before", "after")}
    return Context(
        diff=compare(context["before"], context["after"]), rest=show(rest) if rest else None, **as_recorded
    )


def _recorded(hook: Hook) -> str:
    """The column's text, indented if it is not extreme."""
    field: Any = Hook._meta.get_field("context")
    text = str(field.get_prep_value(field.pre_save(hook, False)) or "")
    with contextlib.suppress(RecursionError, ValueError):
        text = json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    return printable_text(text)
