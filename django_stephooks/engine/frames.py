"""Where in the run am I: the call being worked on, and the branch of concurrent code it is on.

A *frame* is one call in progress: the workflow's own (its call name is ""), or a step's. Frames
form a tree, and a call is named by its place in it. A *branch* is a line of control: the one that
the turn began with, and one for each asyncio task. A suspension stops the branch it happened on and
those that wait for it, and leaves its siblings going.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from typing import TYPE_CHECKING

from django_stephooks.exceptions import NotInRunError

from .retries import RetryPolicy

if TYPE_CHECKING:
    from .turn import Turn

MAX_CALL_LENGTH = 400


class SuspensionSignal(BaseException):
    """Unwinds the code of a run down to the engine.

    A BaseException, so that `except Exception` (an error middleware, a retry decorator) lets it
    pass. Code that catches it all the same only delays it: see `Frame.gate` and `calls.call_step`.
    """


class Branch:
    """A line of control. Once stopped, every durable call on it raises the signal."""

    __slots__ = ("parent", "stopped")

    def __init__(self, parent: Branch | None = None) -> None:
        self.parent = parent
        # Code that swallowed a signal may not go on in a new task either.
        self.stopped: bool = parent is not None and parent.stopped

    def stop(self) -> None:
        branch: Branch | None = self
        while branch is not None:
            branch.stopped = True
            branch = branch.parent


class Frame:
    """One call in progress.

    `suspended`: it, or a call in it, waits, so it can not complete in this turn, whatever its code
    does. `error`: its `on_created` failed, at the hook `failed_at`, so the attempt failed, whatever
    its code does.
    """

    __slots__ = (
        *("call", "checkpoint", "counts", "emitted", "error", "failed_at"),
        *("parent", "retries", "suspended", "turn"),
    )

    def __init__(self, turn: Turn, call: str, *, parent: Frame | None, retries: RetryPolicy) -> None:
        self.turn = turn
        self.call = call
        self.parent = parent
        self.retries = retries
        self.counts: Counter[str] = Counter()
        self.suspended = False
        self.error: Exception | None = None
        self.failed_at = ""
        # "unknown" until asked for or written in this turn; then "stored" or "deleted".
        self.checkpoint = "unknown"
        # The number of its next chunk.
        self.emitted = 0

    def name_call(self, name: str, key: str | None = None) -> str:
        """The name of the next call made here: `parent/name:n`, or `parent/name[key]`."""
        if key is None:
            self.counts[name] += 1
            last = f"{name}:{self.counts[name]}"
        else:
            last = f"{name}[{key}]"
        call = f"{self.call}/{last}" if self.call else last
        if len(call) > MAX_CALL_LENGTH:
            raise ValueError(
                f"The call name {call[:80]!r}… is longer than {MAX_CALL_LENGTH} characters: "
                "shorten its key, or nest steps less deeply."
            )
        return call

    def gate(self) -> None:
        """Called first by every durable call: nothing more happens on a branch that was stopped."""
        if self.turn.end is not None or self.error is not None or current_branch().stopped:
            raise SuspensionSignal

    def suspend(self) -> SuspensionSignal:
        """Note that this call waits, and return the signal to raise."""
        frame: Frame | None = self
        while frame is not None:
            frame.suspended = True
            frame = frame.parent
        current_branch().stop()
        return SuspensionSignal()


_frame: contextvars.ContextVar[Frame | None] = contextvars.ContextVar("stephooks_frame", default=None)
_branch: contextvars.ContextVar[Branch | None] = contextvars.ContextVar("stephooks_branch", default=None)


def current_frame() -> Frame | None:
    return _frame.get()


def require_frame(function: str) -> Frame:
    frame = _frame.get()
    if frame is None:
        raise NotInRunError(
            f"{function}() was called outside a run. It works in a workflow or a step that a worker runs: "
            "begin one with .start()."
        )
    return frame


def current_branch() -> Branch:
    branch = _branch.get()
    if branch is None:
        branch = Branch()
        _branch.set(branch)
    return branch


class entered:
    """`with entered(frame):` the code inside belongs to this call."""

    __slots__ = ("frame", "token")

    def __init__(self, frame: Frame | None) -> None:
        self.frame = frame

    def __enter__(self) -> None:
        self.token = _frame.set(self.frame)

    def __exit__(self, *exc_info: object) -> None:
        _frame.reset(self.token)


def start_branch(branch: Branch) -> None:
    _branch.set(branch)


def holds_signal(error: BaseException | None) -> bool:
    """Whether this is the signal, a TaskGroup's group with it inside, or the cancellation it caused."""
    if isinstance(error, BaseExceptionGroup):
        return any(holds_signal(inner) for inner in error.exceptions)
    return isinstance(error, (SuspensionSignal, asyncio.CancelledError))
