"""The small parent of several worker processes: starts them anew, passes signals on, and dies with them."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType

from django.db import connections

logger = logging.getLogger("django_stephooks.worker")

STOP = (signal.SIGINT, signal.SIGTERM)
# What a child ends with that has reached a limit: another one is to take its place.
REPLACE = 75
# A child that lived for less than this did not work; the next one waits for longer.
SHORT_LIFE = 10.0
PAUSES = (0.5, 30.0)


@dataclass
class Place:
    """Where one child works at a time."""

    pid: int = 0
    began: float = 0.0
    start_at: float = 0.0
    pause: float = 0.0
    is_done: bool = False


class Supervisor:
    """Keeps `processes` children at `work`, which returns a child's exit status.

    With `burst` a child that ends by itself is not replaced, unless it reached a limit.
    """

    def __init__(self, work: Callable[[], int], processes: int, *, burst: bool = False) -> None:
        self.work = work
        self.places = [Place() for _ in range(processes)]
        self.burst = burst
        self.stopping = False
        self.status = 0
        self.wakes: tuple[int, int] = (-1, -1)
        self.lives: tuple[int, int] = (-1, -1)

    def run(self) -> int:
        """Until all children have ended for good; the exit status."""
        # Children must not share the parent's.
        connections.close_all()
        with self._pipes(), self._signals():
            while True:
                self._reap()
                if not self.stopping:
                    for place in self.places:
                        self._start_if_due(place)
                if not any(self._is_open(place) for place in self.places):
                    return self.status
                self._sleep()

    def _is_open(self, place: Place) -> bool:
        return bool(place.pid) or not (self.stopping or place.is_done)

    # --- children ---

    def _start_if_due(self, place: Place) -> None:
        if place.pid or place.is_done or time.monotonic() < place.start_at:
            return
        # A signal must find the child either not there yet or in its place, and the child without
        # the parent's handlers.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP)
        try:
            if not self.stopping:
                place.began = time.monotonic()
                place.pid = os.fork()
                if not place.pid:
                    self._be_child(mask)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _be_child(self, mask: set[int | signal.Signals]) -> None:
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (*STOP, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            for end in (*self.wakes, self.lives[1]):
                os.close(end)
            threading.Thread(target=self._end_with_parent, name="stephooks-parent", daemon=True).start()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            random.seed()
            status = self.work()
        except BaseException:  # noqa: BLE001  (nothing may get out into the parent's code)
            traceback.print_exc()
        finally:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)

    def _end_with_parent(self) -> None:
        # Only the parent holds the other end: this returns when it is gone, however it went.
        os.read(self.lives[0], 1)
        logger.warning("The parent is gone; process %s ends after its turn.", os.getpid())
        os.kill(os.getpid(), signal.SIGTERM)

    def _reap(self) -> None:
        for place in self.places:
            if not place.pid:
                continue
            pid, waited = os.waitpid(place.pid, os.WNOHANG)
            if pid:
                place.pid = 0
                self._has_ended(place, pid, os.waitstatus_to_exitcode(waited))

    def _has_ended(self, place: Place, pid: int, code: int) -> None:
        if self.stopping:
            return
        if self.burst and code != REPLACE:
            place.is_done = True
            self.status = self.status or int(code != 0)
            return
        shortest, longest = PAUSES
        if code == REPLACE or time.monotonic() - place.began > SHORT_LIFE:
            place.pause = 0
        else:
            place.pause = min(max(2 * place.pause, shortest), longest)
        if code not in (0, REPLACE):
            how = f"signal {-code}" if code < 0 else f"status {code}"
            logger.warning("Process %s ended with %s; another one takes its place.", pid, how)
        place.start_at = time.monotonic() + place.pause

    # --- signals, and waiting for them ---

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        before = {number: signal.getsignal(number) for number in (*STOP, signal.SIGCHLD)}
        signal.signal(signal.SIGCHLD, lambda signum, frame: None)
        for number in STOP:
            signal.signal(number, self._stop)
        woken = signal.set_wakeup_fd(self.wakes[1], warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(woken)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, signum: int, frame: FrameType | None) -> None:
        self.stopping = True
        for place in self.places:
            if place.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(place.pid, signum)

    @contextlib.contextmanager
    def _pipes(self) -> Iterator[None]:
        self.wakes, self.lives = os.pipe(), os.pipe()
        os.set_blocking(self.wakes[0], False)
        os.set_blocking(self.wakes[1], False)
        try:
            yield
        finally:
            for end in (*self.wakes, *self.lives):
                os.close(end)

    def _sleep(self) -> None:
        """Until a signal comes, or a place is to be filled."""
        starts = [place.start_at for place in self.places if not (place.pid or place.is_done)]
        left = None if self.stopping or not starts else max(0.0, min(starts) - time.monotonic())
        select.select([self.wakes[0]], [], [], left)
        with contextlib.suppress(BlockingIOError):
            os.read(self.wakes[0], 4096)
