"""Runs a second: of the whole, and of the worker alone."""

from __future__ import annotations

import time
from collections.abc import Iterator

from django_stephooks.runtimes.base import get_runtime

from . import database
from .bench import Bench
from .processes import QUEUE
from .report import Row

GOALS = {"start → suspended": 250, "resume → completed": 400}


def throughput(bench: Bench) -> Iterator[Row]:
    floor = bench.floors.get("jobs")
    for count in bench.plan.workers:
        with bench.workers(count):
            whole = [end_to_end(bench) for _ in range(bench.plan.repeat)]
            alone = [drained(bench) for _ in range(bench.plan.repeat)]
        crowd = f"{count} worker{'s' * (count > 1)}"
        # The goals are for one worker, of the whole.
        for index, (what, goal) in enumerate(GOALS.items()):
            yield Row(
                measure=f"{what}, {crowd}",
                values=[figures[index] for figures in whole],
                unit="runs/s",
                others=bench.others,
                floor=floor,
                goal=goal if count == 1 else None,
            )
        for index, what in enumerate(GOALS):
            yield Row(
                measure=f"{what}, {crowd}, stored before",
                values=[figures[index] for figures in alone],
                unit="runs/s",
                others=bench.others,
                floor=floor,
            )
    for index, what in ((2, "start()"), (3, "resume_hook()")):
        yield Row(
            measure=f"{what}, no worker busy",
            values=[figures[index] for figures in alone],
            unit="calls/s",
            others=bench.others,
            floor=bench.floors.get("commits"),
        )


def end_to_end(bench: Bench) -> tuple[float, float]:
    """(start → suspended, resume → completed): from the first call of the producer to the last run settled.

    The workers wait for work when it begins; the producer calls while they work.
    """
    count, after = bench.plan.runs, database.last_run()
    began = bench.producer.do("start", count=count, workflow="review")["began"]
    suspended = count / (database.wait_until_settled(count, "suspended", after=after) - began)
    database.tidy()
    began = bench.producer.do("resume", after=after)["began"]
    completed = count / (database.wait_until_settled(count, "completed", after=after) - began)
    database.forget(after)
    return suspended, completed


def drained(bench: Bench) -> tuple[float, float, float, float]:
    """The same of the workers alone, and of the producer alone: what to do is stored before the bell rings.

    (start → suspended, resume → completed, calls of start, calls of resume_hook)
    """
    count, after = bench.plan.runs, database.last_run()
    starting = bench.producer.do("start", count=count, workflow="review", silent=True)
    suspended = count / drain(count, "suspended", after)
    resuming = bench.producer.do("resume", after=after, silent=True)
    completed = count / drain(count, "completed", after)
    database.forget(after)
    starts, answers = (count / (times["ended"] - times["began"]) for times in (starting, resuming))
    return suspended, completed, starts, answers


def drain(count: int, status: str, after: int) -> float:
    database.tidy()
    began = time.monotonic()
    get_runtime().ring(QUEUE)
    return database.wait_until_settled(count, status, after=after) - began
