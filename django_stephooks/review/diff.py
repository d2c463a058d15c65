"""What changed between the two sides of a context: row by row, and in texts word by word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from django.utils.translation import ngettext

from .values import MAX_ITEMS, Shown, printable_text, show

# Comparing takes the product of the two lengths.
MAX_LINES = 3_000
MAX_WORDS = 1_500
# Texts that have less in common than this are easier to read one after the other.
MIN_LIKENESS = 0.3
# Lines that are left standing before and after a change.
AROUND = 2

_WORD = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A stretch of a text: "same", "ins", "del", or "fold" (the same, and so long that it is folded)."""

    kind: str
    text: str
    summary: str = ""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One thing on both sides: the pieces of a text, or the two values."""

    name: str
    pieces: tuple[Piece, ...] = ()
    before: Shown | None = None
    after: Shown | None = None


@dataclass(frozen=True, kw_only=True)
class Diff:
    """`rows` changed, `same` did not; `more` of both are left out."""

    rows: tuple[Row, ...]
    same: tuple[tuple[str, Shown], ...]
    more: int = 0


_GONE = object()


def compare(before: Any, after: Any) -> Diff:
    """The two sides as rows."""
    rows: list[Row] = []
    same: list[tuple[str, Shown]] = []
    more = 0
    for name, old, new in _pairs(before, after, ""):
        if len(rows) + len(same) >= MAX_ITEMS:
            more += 1
        elif _equal(old, new):
            same.append((name, show(new)))
        else:
            rows.append(_row(name, old, new))
    return Diff(rows=tuple(rows), same=tuple(same), more=more)


def _pairs(before: Any, after: Any, name: str, level: int = 0) -> Iterator[tuple[str, Any, Any]]:
    """What stands under the same keys, down to where one side is no table; in the order of the new side."""
    if not (isinstance(before, dict) and isinstance(after, dict) and (before or after) and level < 3):
        yield name, before, after
        return
    keys = [*after, *(key for key in before if key not in after)]
    for key in keys:
        path = f"{name} / {printable_text(key)}" if name else printable_text(key)
        yield from _pairs(before.get(key, _GONE), after.get(key, _GONE), path, level + 1)


def _equal(old: Any, new: Any) -> bool:
    return type(old) is type(new) and bool(old == new)


def _row(name: str, old: Any, new: Any) -> Row:
    if isinstance(old, str) and isinstance(new, str) and old and new:
        return Row(name=name, pieces=tuple(compare_texts(printable_text(old), printable_text(new))))
    if _are_words(old) and _are_words(new):
        sides = ["\n".join(map(printable_text, side)) for side in (old, new)]
        return Row(name=name, pieces=tuple(compare_texts(*sides)))
    return Row(
        name=name,
        before=None if old is _GONE else show(old),
        after=None if new is _GONE else show(new),
    )


def _are_words(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(item, str) for item in value)


def compare_texts(old: str, new: str) -> list[Piece]:
    """Line by line, and word by word within the lines that changed."""
    one, other = old.splitlines(keepends=True), new.splitlines(keepends=True)
    if max(len(one), len(other)) > MAX_LINES:
        return _replaced(old, new)
    pieces: list[Piece] = []
    codes = SequenceMatcher(None, one, other).get_opcodes()
    for number, (code, i, j, k, m) in enumerate(codes):
        if code == "equal":
            pieces += _unchanged(other[k:m], is_first=number == 0, is_last=number == len(codes) - 1)
        else:
            pieces += _changed("".join(one[i:j]), "".join(other[k:m]))
    return pieces


def _unchanged(lines: list[str], *, is_first: bool, is_last: bool) -> list[Piece]:
    head, tail = 0 if is_first else AROUND, 0 if is_last else AROUND
    folded = lines[head : len(lines) - tail]
    if len(folded) <= AROUND:
        return [Piece(kind="same", text="".join(lines))]
    count = len(folded)
    summary = ngettext("%(count)d unchanged line", "%(count)d unchanged lines", count) % {"count": count}
    pieces = [
        Piece(kind="same", text="".join(lines[:head])),
        Piece(kind="fold", text="".join(folded), summary=summary),
        Piece(kind="same", text="".join(lines[len(lines) - tail :])),
    ]
    return [piece for piece in pieces if piece.text]


def _replaced(old: str, new: str) -> list[Piece]:
    return [Piece(kind=kind, text=text) for kind, text in (("del", old), ("ins", new)) if text]


def _changed(old: str, new: str) -> list[Piece]:
    one, other = _WORD.findall(old), _WORD.findall(new)
    if max(len(one), len(other)) > MAX_WORDS:
        return _replaced(old, new)
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    if matcher.ratio() < MIN_LIKENESS:
        return _replaced(old, new)
    pieces: list[Piece] = []
    gone = come = ""
    for code, i, j, k, m in matcher.get_opcodes():
        text_before, text_after = "".join(one[i:j]), "".join(other[k:m])
        if code == "equal" and not ((gone or come) and text_after.isspace()):
            pieces += [*_replaced(gone, come), Piece(kind="same", text=text_after)]
            gone = come = ""
        else:
            # A space between two changed words belongs to the change.
            gone, come = gone + text_before, come + text_after
    return [*pieces, *_replaced(gone, come)]
