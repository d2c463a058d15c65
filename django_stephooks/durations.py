"""Lengths of time as people write them ("1h30m"), and back; asked wherever a timeout is taken."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Any

LONGEST = timedelta(days=36525)

_UNITS = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
# Every unit at most once, longer before shorter; no sign, and no digits but ASCII ones.
_AMOUNT = r"[0-9]{1,15}(?:\.[0-9]{1,6})?"
_TEXT = re.compile(" ?".join(f"(?:(?P<{unit}>{_AMOUNT}){unit})?" for unit in _UNITS))


def parse_duration(value: Any, *, name: str = "timeout", allow_zero: bool = False) -> timedelta:
    """The length of time meant by "24h", "7d", "1h30m", a number of seconds, or a timedelta.

    ValueError, with a sentence that begins with `name`, for zero (unless allowed), anything
    negative, anything over 100 years, and nonsense.
    """
    try:
        duration = _parse(value)
    except OverflowError:
        raise _refusal(value, name, allow_zero, "is longer than 100 years") from None
    if duration is None:
        raise _refusal(value, name, allow_zero, "is not a length of time")
    if duration < timedelta(0):
        raise _refusal(value, name, allow_zero, "is negative")
    if duration == timedelta(0) and not allow_zero:
        raise _refusal(value, name, allow_zero, "is no time at all")
    if duration > LONGEST:
        raise _refusal(value, name, allow_zero, "is longer than 100 years")
    return duration


def describe(duration: timedelta) -> str:
    """A length of time for people: "1 h 30 min", "7 d", "500 ms"."""
    if duration < timedelta(0):
        return f"-{describe(-duration)}"
    minutes, seconds = divmod(duration.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    amounts = {
        "d": duration.days,
        "h": hours,
        "min": minutes,
        "s": seconds,
        "ms": duration.microseconds / 1000,
    }
    return " ".join(f"{amount:,.10g} {unit}" for unit, amount in amounts.items() if amount) or "0 s"


def _parse(value: Any) -> timedelta | None:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        if isinstance(value, float) and math.isnan(value):
            return None
        return timedelta(seconds=value)
    if isinstance(value, str) and (text := value.strip()) and (match := _TEXT.fullmatch(text)):
        amounts = {unit: amount for unit, amount in match.groupdict().items() if amount}
        return sum((float(amount) * _UNITS[unit] for unit, amount in amounts.items()), timedelta(0))
    return None


def _refusal(value: Any, name: str, allow_zero: bool, what: str) -> ValueError:
    try:
        shown = repr(value)
    except ValueError:  # Python does not write out integers of thousands of digits.
        shown = "a huge number"
    if len(shown) > 60:
        shown = f"{shown[:57]}…"
    least = "zero or more" if allow_zero else "more than zero"
    return ValueError(
        f'{name}: {shown} {what}. Accepted: "24h", "7d", "1h30m", "90s", "500ms" '
        "(units w, d, h, m, s, ms), a number of seconds, or a timedelta; "
        f"{least}, at most 100 years."
    )
