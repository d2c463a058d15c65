"""When a failed step is tried again: the policy that `@step(max_retries=, retry_delay=)` describes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django_stephooks.durations import parse_duration
from django_stephooks.exceptions import (
    FatalError,
    HookError,
    InvalidPayloadError,
    RetryableError,
    SerializationError,
)

EXPONENTIAL_CAP = timedelta(hours=1)

# Trying again would only say the same again: the outcome is recorded, or the value stays what it is.
POINTLESS = (FatalError, HookError, SerializationError, InvalidPayloadError)


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """`max_retries=2` means three attempts. `delays` is None for 1 s, 2 s, 4 s … up to an hour."""

    max_retries: int = 3
    delays: tuple[timedelta, ...] | None = None

    @classmethod
    def parse(cls, max_retries: Any, retry_delay: Any) -> RetryPolicy:
        """ValueError, with what is accepted, when a step is defined with nonsense."""
        if isinstance(max_retries, bool) or not isinstance(max_retries, int) or max_retries < 0:
            raise ValueError(f"max_retries={max_retries!r} is not a number of retries: give 0, 1, 2, …")
        if retry_delay == "exponential":
            return cls(max_retries=max_retries)
        given = (
            retry_delay
            if isinstance(retry_delay, Sequence) and not isinstance(retry_delay, str)
            else [retry_delay]
        )
        if not given:
            raise ValueError(
                'retry_delay=[] names no delay: give "exponential", "30s", or a list such as [1, 5, 30].'
            )
        return cls(
            max_retries=max_retries,
            delays=tuple(parse_duration(delay, name="retry_delay", allow_zero=True) for delay in given),
        )

    def delay(self, attempt: int, error: BaseException) -> timedelta | None:
        """How long to wait after this attempt (1, 2, …) failed; None if it was the last one.

        The last of several `delays` goes on for later attempts.
        """
        if attempt > self.max_retries or isinstance(error, POINTLESS):
            return None
        if isinstance(error, RetryableError) and error.retry_after is not None:
            # Nonsense in retry_after must not cost the attempt its retry: the policy's delay stands.
            with contextlib.suppress(ValueError):
                return parse_duration(error.retry_after, name="retry_after", allow_zero=True)
        if self.delays is None:
            return min(timedelta(seconds=2 ** min(attempt - 1, 12)), EXPONENTIAL_CAP)
        return self.delays[min(attempt, len(self.delays)) - 1]
