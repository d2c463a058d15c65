"""Fixtures with a real Redis, and a stand-in for the engine that only notes what it was told."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from rq import Queue, SimpleWorker

from demo_project.embedded_redis import EmbeddedRedis
from django_stephooks.runtimes import base, inline, rq, scheduler

from . import stand_in


@pytest.fixture
def redis(redis_socket: str, settings: Any) -> Iterator[Redis]:
    """An empty Redis, with the runtime that rings over it."""
    settings.STEPHOOKS = {"RUNTIME": "rq"}
    with Redis(unix_socket_path=redis_socket) as client:
        client.flushall()
        yield client


@pytest.fixture
def own_redis(settings: Any) -> Iterator[EmbeddedRedis]:
    """A Redis that this test may stop, and start again at the same path with another instance."""
    with tempfile.TemporaryDirectory(prefix="stephooks-") as directory:
        socket_path = Path(directory) / "redis.sock"
        settings.STEPHOOKS = {"RUNTIME": "rq"}
        settings.RQ_QUEUES = {"default": {"UNIX_SOCKET_PATH": str(socket_path), "DB": 0}}
        with EmbeddedRedis(socket_path=socket_path) as server:
            yield server


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process that has just started: no connection, no quiet period."""
    monkeypatch.setattr(rq, "_here", rq._Process())
    yield
    for _, client in rq._here._clients:
        client.close()


@pytest.fixture(autouse=True)
def nothing_due(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The scheduler finds nothing in the database, but for what `stand_in.due` says."""
    monkeypatch.setattr(scheduler, "UNTIL_DUE", f"{stand_in.__name__}.seconds_until_due")
    yield
    stand_in.due.clear()


@pytest.fixture
def worked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The queues that somebody worked on, in order."""
    for module in (base, inline, rq):
        monkeypatch.setattr(module, "WORK", f"{stand_in.__name__}.work")
    monkeypatch.setattr(rq, "SWEEP", f"{stand_in.__name__}.sweep")
    stand_in.reset()
    yield stand_in.worked
    stand_in.reset()


def waiting(*names: str) -> list[str]:
    """The ids of the jobs that wait for a worker in these queues."""
    return [job_id for name in names or ("default",) for job_id in rq.open_queue(name).job_ids]


def work_off(queue: Queue) -> None:
    """Be a worker until the queue is empty."""
    SimpleWorker([queue], connection=queue.connection).work(burst=True, logging_level="ERROR")


def until(happened: Callable[[], object]) -> None:
    """Wait for another process; whoever asks looks at what became of it."""
    deadline = time.monotonic() + 30
    while not happened() and time.monotonic() < deadline:
        time.sleep(0.02)
