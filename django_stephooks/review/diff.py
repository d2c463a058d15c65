"""What changed between the two sides of a context: row by row, and in texts word by word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from itertools import accumulate
from typing import Any

from django.utils.translation import ngettext

from .values import MAX_ITEMS, Shown, printable_text, show

# Comparing takes the product of the two lengths.
MAX_LINES = 3_000
MAX_WORDS = 1_500
# What finding the words that two texts share may take, for all texts of a page together: looks at pairs
# of equal words. That many take about a second; MAX_WORDS of natural text take a sixth of it.
MAX_LOOKS = 20_000_000
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


class TooMuchEffort(Exception):
    """Comparing the words of this page has taken long enough."""


class Effort:
    """What is left of the looks that a page may take."""

    def __init__(self) -> None:
        self.left = MAX_LOOKS

    def spend(self, looks: int) -> None:
        self.left -= looks
        if self.left < 0:
            raise TooMuchEffort


class BoundedMatcher(SequenceMatcher[str]):
    """Words that keep coming back can take the cube of their number: it counts, and gives up."""

    def __init__(self, one: list[str], other: list[str], effort: Effort) -> None:
        super().__init__(None, one, other, autojunk=False)
        self.effort = effort
        places: dict[str, list[int]] = self.b2j  # type: ignore[attr-defined]
        self.looks = [0, *accumulate(len(places.get(word, ())) + 1 for word in one)]

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> Match:
        self.effort.spend(self.looks[-1 if ahi is None else ahi] - self.looks[alo])
        return super().find_longest_match(alo, ahi, blo, bhi)


def compare(before: Any, after: Any) -> Diff:
    """The two sides as rows."""
    rows: list[Row] = []
    same: list[tuple[str, Shown]] = []
    more, effort = 0, Effort()
    for name, old, new in _pairs(before, after, ""):
        if len(rows) + len(same) >= MAX_ITEMS:
            more += 1
        elif _equal(old, new):
            same.append((name, show(new)))
        else:
            rows.append(_row(name, old, new, effort))
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


def _row(name: str, old: Any, new: Any, effort: Effort) -> Row:
    if isinstance(old, str) and isinstance(new, str) and old and new:
        return Row(name=name, pieces=tuple(compare_texts(printable_text(old), printable_text(new), effort)))
    if _are_words(old) and _are_words(new):
        one, other = ("\n".join(map(printable_text, side)) for side in (old, new))
        return Row(name=name, pieces=tuple(compare_texts(one, other, effort)))
    return Row(
        name=name,
        before=None if old is _GONE else show(old),
        after=None if new is _GONE else show(new),
    )


def _are_words(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(item, str) for item in value)


def compare_texts(old: str, new: str, effort: Effort | None = None) -> list[Piece]:
    """Line by line, and word by word within the lines that changed, as far as the effort goes."""
    effort = effort or Effort()
    one, other = old.splitlines(keepends=True), new.splitlines(keepends=True)
    if max(len(one), len(other)) > MAX_LINES:
        return _replaced(old, new)
    pieces: list[Piece] = []
    codes = SequenceMatcher(None, one, other).get_opcodes()
    for number, (code, i, j, k, m) in enumerate(codes):
        if code == "equal":
            pieces += _unchanged(other[k:m], is_first=number == 0, is_last=number == len(codes) - 1)
        else:
            pieces += _changed("".join(one[i:j]), "".join(other[k:m]), effort)
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


def _changed(old: str, new: str, effort: Effort) -> list[Piece]:
    one, other = _WORD.findall(old), _WORD.findall(new)
    if max(len(one), len(other)) > MAX_WORDS:
        return _replaced(old, new)
    matcher = BoundedMatcher(one, other, effort)
    try:
        likeness = matcher.ratio()
    except TooMuchEffort:
        return _replaced(old, new)
    if likeness < MIN_LIKENESS:
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
