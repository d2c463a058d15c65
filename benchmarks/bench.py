"""What every measurement is given: how much to do, who else waits, and the processes to do it with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from django_stephooks.engine.worker import work
from django_stephooks.models import Run

from . import database, processes
from .others import copy_run

WARM_UP = 60


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is done. A figure is the median of `repeat` repetitions."""

    others: tuple[int, ...] = (0, 10_000, 100_000)
    workers: tuple[int, ...] = (1, 2)
    repeat: int = 3
    runs: int = 1000
    single: int = 200
    hooks: tuple[int, ...] = (1, 10, 50, 100)
    deadlines: tuple[int, ...] = (1000, 10_000)
    jobs: int = 1000


QUICK = Plan(others=(300,), repeat=1, runs=60, single=10, hooks=(1, 5), deadlines=(50,), jobs=50)


@dataclass(kw_only=True)
class Bench:
    plan: Plan
    producer: processes.Producer
    worker: str
    log: Path
    others: int = 0
    floors: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def workers(self, count: int = 1) -> Iterator[None]:
        """So many workers that have worked already: what they import and compile is in their memory."""
        with processes.workers(count, self.worker, log=self.log):
            after = self.start(WARM_UP * count)
            self.producer.do("resume", after=after)
            database.wait_until_settled(WARM_UP * count, "completed", after=after)
            database.forget(after)
            yield

    def start(self, count: int, *, workflow: str = "review") -> int:
        """Start runs and wait until they are suspended; returns the key of the run before them."""
        after = database.last_run()
        self.producer.do("start", count=count, workflow=workflow)
        database.wait_until_settled(count, "suspended", after=after)
        return after

    def make_others(self, count: int) -> None:
        """Empty tables, but for so many runs that wait for an answer."""
        database.empty()
        if count:
            self.store_waiting(count)
        self.others = count

    def store_waiting(self, count: int) -> int:
        """Store runs that wait, without any worker; returns the key of the run before them."""
        after = database.last_run()
        self.producer.do("start", count=1, workflow="review", silent=True)
        work(processes.QUEUE)
        copy_run(Run.objects.get(pk__gt=after), count - 1)
        return after
