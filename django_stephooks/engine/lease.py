"""The heartbeat: while a long turn works, its lease is renewed from a thread beside it.

A turn shorter than a third of its lease never needs one, so the thread is started late, and one
serves all turns of the process. It stops renewing what is over its time limit: a turn that hangs
where nothing can interrupt it loses its run to another worker in the end.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from django.db import DatabaseError, connections
from django.utils import timezone

from django_stephooks.conf import app_settings
from django_stephooks.durations import parse_duration
from django_stephooks.models import Run
from django_stephooks.models.run import handed_back
from django_stephooks.models.transactions import write_alias

logger = logging.getLogger("django_stephooks.engine")


@dataclass(eq=False)
class Held:
    run_id: int
    turn: int
    renew_at: float
    until: float  # monotonic; no renewal after this


class Keeper:
    """Renews the leases of this process's turns. A forked child begins with an empty one."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.changed = threading.Condition()
        self.held: set[Held] = set()
        self.thread: threading.Thread | None = None

    @contextlib.contextmanager
    def keep(self, run: Run, limit: timedelta) -> Iterator[None]:
        now = time.monotonic()
        held = Held(run.pk, run.turn, now + interval(), now + limit.total_seconds())
        with self.changed:
            self.held.add(held)
            if self.thread is None:
                self.thread = threading.Thread(target=self._renew, name="stephooks-lease", daemon=True)
                self.thread.start()
        try:
            yield
        finally:
            with self.changed:
                self.held.discard(held)

    def _renew(self) -> None:
        while True:
            with self.changed:
                due = [held for held in self.held if held.renew_at <= time.monotonic() < held.until]
                if not due and not self.held:
                    # Nobody to serve for a whole interval: the next turn starts a new thread.
                    self.changed.wait(interval())
                    if not self.held:
                        self.thread = None
                        return
                    continue
                if not due:
                    self.changed.wait(max(0.05, interval() / 4))
                    continue
            for held in due:
                held.renew_at = time.monotonic() + interval()
                self._renew_one(held)
            connections.close_all()

    def _renew_one(self, held: Held) -> None:
        try:
            runs = Run.objects.using(write_alias()).filter(pk=held.run_id)
            runs.extend_lease(held.turn, lease_until=timezone.now() + lease())
        except DatabaseError:
            # The turn's own writes will tell whether it still has the run.
            logger.warning("The lease of run %s could not be renewed.", held.run_id, exc_info=True)


_keeper = Keeper()


def keep(run: Run, limit: timedelta) -> contextlib.AbstractContextManager[None]:
    """`with keep(run, limit):` the lease is renewed for as long as the code inside takes, up to the limit."""
    global _keeper
    if _keeper.pid != os.getpid():
        _keeper = Keeper()
    return _keeper.keep(run, limit)


def hand_back() -> int:
    """Let other workers go on at once with the runs of this process; its own turns are void from now on.

    For a process that ends in the middle of them. Called from another thread than theirs; what they
    hold locked when it ends is recovered when its lease ends.
    """
    # Without the lock: the thread that was stopped may be the one that has it.
    held = [(held.run_id, held.turn) for held in tuple(_keeper.held)] if _keeper.pid == os.getpid() else []
    runs = Run.objects.using(write_alias())
    return sum(runs.filter(pk=run).held(turn).update(**handed_back(timezone.now())) for run, turn in held)


def lease() -> timedelta:
    return parse_duration(app_settings.LEASE, name="LEASE")


def interval() -> float:
    return lease().total_seconds() / 3
