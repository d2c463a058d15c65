"""Time limits that are really enforced on synchronous code.

In a process's main thread by an interval timer's signal, elsewhere by an asynchronous exception
(which a blocking C call notices only when it returns). Both raise `TimeUp`, a BaseException that
`except Exception` does not see; code that swallows it is over its limit all the same.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import FrameType


class TimeUp(BaseException):
    """Unwinds code that is over its time limit; never leaves `time_limit`."""


class _Shield(threading.local):
    """While the engine writes, a limit waits: an exception inside a commit would leave it in doubt."""

    depth = 0
    missed = False


_shield = _Shield()


@contextlib.contextmanager
def shielded() -> Iterator[None]:
    """No time limit interrupts the code inside; one that ends meanwhile is raised behind it."""
    _shield.depth += 1
    try:
        yield
    finally:
        _shield.depth -= 1
        missed = _shield.depth == 0 and _shield.missed
        if missed:
            # Also if the write failed: it must not hit a later one.
            _shield.missed = False
    if missed:
        raise TimeUp


class _Limit:
    """`fired`: its time was up while it was `active`; `sent`: an exception is on its way to the thread."""

    def __init__(self) -> None:
        self.active = True
        self.fired = False
        self.sent = False


@contextlib.contextmanager
def time_limit(seconds: float | timedelta | None, error: Callable[[], Exception]) -> Iterator[None]:
    """Raise `error()` if the code inside takes longer. Limits nest: the nearest one counts."""
    if seconds is None:
        yield
        return
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    limit = _Limit()
    in_main = threading.current_thread() is threading.main_thread()
    try:
        with (_alarm if in_main else _async_exception)(seconds, limit):
            yield
    except TimeUp:
        if not limit.fired:
            raise  # an outer limit's, which ended sooner
        raise error() from None
    except Exception:
        if limit.fired:
            raise error() from None
        raise
    if limit.fired:
        raise error()


@contextlib.contextmanager
def _alarm(seconds: float, limit: _Limit) -> Iterator[None]:
    outer_left, _ = signal.getitimer(signal.ITIMER_REAL)
    if 0 < outer_left <= seconds:
        yield  # the outer limit ends sooner and takes this code with it
        return

    def ring(signum: int, frame: FrameType | None) -> None:
        if limit.active:
            limit.fired = True
            if _shield.depth:
                _shield.missed = True
            else:
                raise TimeUp

    start = time.monotonic()
    outer_handler = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        limit.active = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, outer_handler)
        if outer_left:
            left = outer_left - (time.monotonic() - start)
            signal.setitimer(signal.ITIMER_REAL, max(left, 0.001))


@contextlib.contextmanager
def _async_exception(seconds: float, limit: _Limit) -> Iterator[None]:
    thread = ctypes.c_ulong(threading.get_ident())
    lock = threading.Lock()
    arrived = threading.Event()

    class ThisTimeUp(TimeUp):
        def __init__(self) -> None:
            super().__init__()
            arrived.set()

    # The dictionary of this thread's shield, for the timer's thread to look at.
    shield = _shield.__dict__

    def ring() -> None:
        with lock:
            if limit.active:
                limit.fired = True
                if shield.get("depth", 0):
                    shield["missed"] = True
                else:
                    limit.sent = True
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(ThisTimeUp))

    timer = threading.Timer(seconds, ring)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            limit.active = False
        timer.cancel()
        if limit.sent:
            # It must not hit the code behind the limit. It can not be taken back either: clearing it
            # leaves CPython 3.11 going round in circles as soon as something traces. So it is met here.
            with contextlib.suppress(ThisTimeUp):
                for _ in range(100):
                    if arrived.is_set():
                        break
                    time.sleep(0.001)
