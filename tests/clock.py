"""A clock that stands still until a test moves it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django_stephooks.durations import parse_duration


class Clock:
    """Put in the place of `timezone.now`."""

    def __init__(self, now: datetime = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, duration: Any) -> datetime:
        self.now += parse_duration(duration, name="advance")
        return self.now
