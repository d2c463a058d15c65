"""Observers: code that looks on while turns and steps are worked on, and facts that travel with a run.

A signal says what has happened; an observer is there while it happens, in the thread or task in
which it does: a span, a profiler, a logger's context. While there are none, nothing is done for them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Any

logger = logging.getLogger("django_stephooks")


@dataclass(slots=True)
class TurnWork:
    """A turn on the row `run`.

    `outcome` is known once it has ended: "completed", "failed", "suspended", "ready" (it goes on in a
    further turn at once) or "lost" (another worker has the run, or it was cancelled). It stays empty if
    the turn could not be settled: the database failed, or the process is told to stop.
    """

    run: Any
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class StepWork:
    """The code of a step at work: the `attempt`th attempt at this call, or a later turn of it."""

    run: Any
    call: str
    attempt: int


class Observer:
    """Derive from it, override what you need, and `add()` an instance.

    What one raises is logged and stops nobody. In `around_step` the database may not be used: in
    async code it is entered in the event loop. The context manager of a step sees what its code
    raised; a step that waits leaves by a BaseException that is no Exception.
    """

    def around_turn(self, turn: TurnWork) -> AbstractContextManager[Any]:
        return nullcontext()

    def around_step(self, step: StepWork) -> AbstractContextManager[Any]:
        return nullcontext()

    def carry(self) -> Mapping[str, Any]:
        """Small facts, in JSON, that the journal keeps with what is happening here and now: with the
        start, an answer, a retry, and the end of a turn. Later turns can read them there."""
        return {}


_observers: tuple[Observer, ...] = ()
_nothing = nullcontext()


def add(observer: Observer) -> None:
    global _observers
    _observers = (*_observers, observer)


def remove(observer: Observer) -> None:
    global _observers
    _observers = tuple(known for known in _observers if known is not observer)


def around_turn(turn: TurnWork) -> AbstractContextManager[Any]:
    if not _observers:
        return _nothing
    return _Around([(observer.around_turn, turn) for observer in _observers])


def around_step(run: Any, call: str, attempt: int) -> AbstractContextManager[Any]:
    if not _observers:
        return _nothing
    step = StepWork(run, call, attempt)
    return _Around([(observer.around_step, step) for observer in _observers])


def carried() -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for observer in _observers:
        try:
            facts.update(observer.carry())
        except Exception:
            logger.exception("An observer's carry() failed: %r", observer)
    return facts


class _Around:
    """Their context managers as one that lets everything pass, and none of their own errors."""

    def __init__(self, wanted: list[tuple[Callable[[Any], AbstractContextManager[Any]], Any]]) -> None:
        self.wanted = wanted
        self.entered: list[AbstractContextManager[Any]] = []

    def __enter__(self) -> None:
        for function, work in self.wanted:
            try:
                manager = function(work)
                manager.__enter__()
            except Exception:
                logger.exception("An observer failed: %r", function)
            else:
                self.entered.append(manager)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for manager in reversed(self.entered):
            try:
                manager.__exit__(kind, error, traceback)
            except Exception:
                logger.exception("An observer failed: %r", manager)
