"""A run's journal as a turn uses it: loaded once, then dictionary lookups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from django_stephooks.exceptions import SerializationError
from django_stephooks.models import Event, Hook
from django_stephooks.models.fields import Encoded

T = Event.Type


class Outcome(NamedTuple):
    """What a step or a `once` came to, recorded for good."""

    completed: bool
    value: Any  # the result; or the error, as `failures.describe` wrote it
    emitted: int = 0  # how many chunks the function of a `once` emitted


class Retrying(NamedTuple):
    failed_attempts: int
    due_at: datetime


class Journal:
    """What was recorded in earlier turns, by call.

    `unread` holds the recorded calls that the code of this turn has not come to (again) yet, in
    the order they were recorded, each with what it was. It is how changed code is noticed.
    """

    def __init__(self, events: Iterable[tuple[str, str, Any]] = (), hooks: Iterable[Hook] = ()) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self.retrying: dict[str, Retrying] = {}
        self.timers: dict[str, datetime] = {}
        self.started: set[str] = set()
        self.hooks: dict[str, Hook] = {hook.call: hook for hook in hooks}
        self.unread: dict[str, str] = {}
        self._failed: list[str] = []
        for type, call, data in events:
            try:
                self._read(type, call, data)
            except (AttributeError, LookupError, TypeError):
                # Not what this package writes: whoever changed it must not stop the worker.
                raise SerializationError(
                    f"What was recorded of {call!r} is not a {type} as it is written. "
                    "Restore the row and retry the run, or cancel the run."
                ) from None
        for call, hook in self.hooks.items():
            if hook.status == Hook.Status.CANCELLED or (
                hook.status == Hook.Status.EXPIRED and not self.is_top(call)
            ):
                self.unread.pop(call, None)

    def _read(self, type: str, call: str, data: Any) -> None:
        if isinstance(data, Encoded):
            raise SerializationError(
                f"What was recorded of {call!r} can not be read any more: its class is gone or has changed. "
                "Put it back and retry the run, or cancel the run."
            )
        if type == T.STEP_STARTED:
            self.started.add(call)
        elif type in (T.STEP_COMPLETED, T.ONCE_COMPLETED):
            self.outcomes[call] = Outcome(True, data["result"], data.get("emitted", 0))
            self._note(call, "step" if type == T.STEP_COMPLETED else "once")
        elif type == T.STEP_FAILED:
            self.outcomes[call] = Outcome(False, data["error"])
            self._note(call, "step")
        elif type == T.STEP_RETRYING:
            self.retry(call, Retrying(data["attempt"], data["due_at"]))
        elif type == T.TIMER_STARTED:
            self.timers[call] = data["due_at"]
            self._note(call, "timer")
        elif type == T.HOOK_CREATED and call in self.hooks:
            self.unread[call] = "hook"
        elif type == T.RUN_FAILED:
            self._failed = data.get("calls", [])
        elif type == T.RUN_RETRIED:
            self._forget_failures()

    def _note(self, call: str, what: str) -> None:
        # Inside a step the code may take another path when it is tried again: only what a person
        # said must not be dropped there. The workflow's own calls must all come again.
        if self.is_top(call):
            self.unread[call] = what

    def retry(self, call: str, retrying: Retrying) -> None:
        """A step is to be tried again, and with it the steps that failed inside it."""
        self.retrying[call] = retrying
        self._forget_failures_inside(call)

    def _forget_failures(self) -> None:
        """A retried run does again what it failed at, and counts attempts anew."""
        for call in self._failed:
            self.outcomes.pop(call, None)
            self.unread.pop(call, None)
            self._forget_failures_inside(call)
        self.retrying.clear()

    def _forget_failures_inside(self, call: str) -> None:
        for inner in [inner for inner in self.outcomes if inner.startswith(f"{call}/")]:
            if not self.outcomes[inner].completed:
                del self.outcomes[inner]
                self.retrying.pop(inner, None)

    @staticmethod
    def is_top(call: str) -> bool:
        return "/" not in call

    def read(self, call: str) -> None:
        """The code has come to this call."""
        self.unread.pop(call, None)

    def first_unread(self, *, pending: bool) -> str | None:
        """The first recorded call that the code has passed by; hooks still pending only if asked for."""
        for call in self._passed_by():
            if call not in self.hooks or pending or self.hooks[call].status != Hook.Status.PENDING:
                return call
        return None

    def first_unread_answer(self, step: str) -> str | None:
        """The first answer given inside this step that its code has passed by."""
        for call in self._passed_by():
            hook = self.hooks.get(call)
            if hook and call.startswith(f"{step}/") and hook.status == Hook.Status.RECEIVED:
                return call
        return None

    def _passed_by(self) -> Iterator[str]:
        for call in list(self.unread):
            if self._is_below_an_outcome(call):
                del self.unread[call]  # its step was read; the calls inside it need not come again
            else:
                yield call

    def _is_below_an_outcome(self, call: str) -> bool:
        parent, _, _ = call.rpartition("/")
        while parent:
            if parent in self.outcomes and parent not in self.unread:
                return True
            parent, _, _ = parent.rpartition("/")
        return False
