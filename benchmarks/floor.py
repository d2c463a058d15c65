"""The floor: what RQ and PostgreSQL cost by themselves, so that ratios can be told."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from django.db import connection
from rq import Queue

from . import processes
from .bench import Bench
from .processes import QUEUE, redis
from .report import Row

DONE = "stephooks:bench:done"


def nothing() -> None:
    """A job that does nothing."""


def tell() -> None:
    """A job that says when it is done."""
    redis().lpush(DONE, 1)


def floor(bench: Bench) -> Iterator[Row]:
    for kind, what in (("simple", "SimpleWorker"), ("forking", "forking worker")):
        jobs = bench.plan.jobs if kind == "simple" else bench.plan.jobs // 5
        with processes.workers(1, kind, log=bench.log):
            bench.producer.do("jobs", count=20)
            rates = [bench.producer.do("jobs", count=jobs) for _ in range(bench.plan.repeat)]
            trips = bench.producer.do("round_trips", count=bench.plan.single)
        yield Row(measure=f"floor: RQ jobs that do nothing, {what}", values=rates, unit="jobs/s")
        yield Row(measure=f"floor: one RQ job on an idle system, {what}, p50", values=[trips], unit="ms")
        if kind == "simple":
            bench.floors.update(jobs=statistics.median(rates), trip=trips)
    seconds = [commits(bench.plan.jobs) for _ in range(bench.plan.repeat)]
    yield Row(
        measure="floor: PostgreSQL commits of one small row",
        values=[1 / each for each in seconds],
        unit="commits/s",
    )
    yield Row(measure="floor: one PostgreSQL commit", values=[each * 1000 for each in seconds], unit="ms")
    bench.floors.update(commit=statistics.median(seconds) * 1000, commits=1 / statistics.median(seconds))


def commits(count: int) -> float:
    """Seconds for one INSERT and its commit, without the ORM: the median."""
    connection.ensure_connection()
    raw = connection.connection
    raw.execute("CREATE TABLE IF NOT EXISTS bench_floor (id bigserial PRIMARY KEY, note text)")
    seconds = []
    for _ in range(count):
        began = time.monotonic()
        raw.execute("INSERT INTO bench_floor (note) VALUES (%s)", ["x" * 200])
        seconds.append(time.monotonic() - began)
    raw.execute("DROP TABLE bench_floor")
    return statistics.median(seconds)


# --- called by the producer ---


def jobs(count: int) -> float:
    """Jobs a second: put into the queue one after the other while the worker works."""
    queue, client = _queue(), redis()
    began = time.monotonic()
    for _ in range(count - 1):
        queue.enqueue_call(nothing, result_ttl=0)
    queue.enqueue_call(tell, result_ttl=0)
    client.blpop(DONE)
    return count / (time.monotonic() - began)


def round_trips(count: int) -> float:
    """Milliseconds from putting a job into the queue of an idle worker to its answer: the median."""
    queue, client = _queue(), redis()
    seconds = []
    for _ in range(count):
        time.sleep(0.02)
        began = time.monotonic()
        queue.enqueue_call(tell, result_ttl=0)
        client.blpop(DONE)
        seconds.append(time.monotonic() - began)
    return statistics.median(seconds) * 1000


def _queue() -> Queue:
    return Queue(QUEUE, connection=redis())
