"""Recorded values as a page shows them; a page only walks the tree and escapes its texts.

Whatever is stored must be shown without breaking the page: characters that nobody can print,
numbers of thousands of digits, values nested a hundred deep, rows that can not be read any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any

from django.db.models import Model
from django.utils import formats, timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_stephooks import codec
from django_stephooks.exceptions import SerializationError
from django_stephooks.types import StepHookTimeout

# Deeper than this nobody reads, and templates would recurse.
MAX_LEVELS = 6
MAX_ITEMS = 200
LONG_TEXT = 300
LONG_LINES = 5


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A value to be shown.

    `kind`: "text"; "long", to be folded behind its `summary`; "note", said about the value instead
    of it; "moment"; "rows" of a name and a value; "items". `more` of these are left out.
    """

    kind: str
    text: str = ""
    summary: str = ""
    moment: datetime | None = None
    rows: tuple[tuple[str, Shown], ...] = ()
    items: tuple[Shown, ...] = ()
    more: int = 0


def show(value: Any) -> Shown:
    """A value of our records as a page shows it."""
    return _show(codec.printable(value), 0)


def printable_text(value: Any) -> str:
    """A text without the characters that no page can print."""
    return str(codec.printable(str(value)))


def local_time(value: datetime) -> datetime:
    """On the clock of the reader; the first and last hours of all time are on none but their own."""
    try:
        return timezone.localtime(value) if timezone.is_aware(value) else value
    except OverflowError:
        return value


def read(row: Model, name: str) -> Shown:
    """A recorded column of a row, or a note that it can not be read."""
    try:
        return show(getattr(row, name))
    except SerializationError as error:
        return Shown(kind="note", text=printable_text(error))


def _show(value: Any, level: int) -> Shown:
    if value is None:
        return Shown(kind="note", text=_("none"))
    if isinstance(value, bool):
        return Shown(kind="text", text=_("yes") if value else _("no"))
    if isinstance(value, StepHookTimeout):
        return Shown(kind="note", text=_("no answer before the deadline"))
    if isinstance(value, (str, bytes, dict, list, tuple, set, frozenset)) and not value:
        return Shown(kind="note", text=_("empty"))
    if isinstance(value, str):
        return _show_text(value)
    if isinstance(value, datetime):
        return Shown(kind="moment", moment=value)
    if isinstance(value, (dict, list, tuple, set, frozenset)):
        return _show_collection(value, level)
    return Shown(kind="text", text=_as_text(value))


def _show_text(text: str) -> Shown:
    if len(text) <= LONG_TEXT and text.count("\n") < LONG_LINES:
        return Shown(kind="text", text=text)
    first_line = text.strip().partition("\n")[0]
    summary = first_line[:80].rstrip() + ("…" if len(first_line) > 80 else " …")
    return Shown(kind="long", text=text, summary=summary)


def _show_collection(value: Any, level: int) -> Shown:
    if level >= MAX_LEVELS:
        try:
            text = repr(value)
        except ValueError:
            return Shown(kind="note", text=_("too deep to be shown"))
        return Shown(kind="long", text=text, summary=_("deeper levels"))
    more = max(len(value) - MAX_ITEMS, 0)
    if isinstance(value, dict):
        pairs = list(value.items())[:MAX_ITEMS]
        rows = tuple((_as_text(key), _show(item, level + 1)) for key, item in pairs)
        return Shown(kind="rows", rows=rows, more=more)
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=_as_text)
    return Shown(kind="items", items=tuple(_show(item, level + 1) for item in value[:MAX_ITEMS]), more=more)


def _as_text(value: Any) -> str:
    if isinstance(value, bytes):
        size = ngettext("%(count)d byte", "%(count)d bytes", len(value)) % {"count": len(value)}
        return f"{size}: {value[:32].hex(' ')}{' …' if len(value) > 32 else ''}"
    if isinstance(value, datetime):
        return local_time(value).isoformat(" ")
    if isinstance(value, date):
        return formats.date_format(value)
    if isinstance(value, time):
        return value.isoformat()
    try:
        return str(value)
    except ValueError:
        # Python writes no integer of more than 4,300 digits in the decimal system.
        return hex(value) if isinstance(value, int) else _("too long to be shown")
