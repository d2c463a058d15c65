"""Many ring the bell of a real Redis at once: one job waits, and no ring goes unheard."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from redis import Redis

from django_stephooks.runtimes import rq

from .crew import PATIENCE, Crew, errors


@pytest.fixture
def redis(redis_socket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Redis]:
    """An empty Redis, in a process that has no connection to it yet."""
    monkeypatch.setattr(rq, "_here", rq._Process())
    with Redis(unix_socket_path=redis_socket) as client:
        client.flushall()
        yield client
    for _, connection in rq._here._clients:
        connection.close()


def ring_often(bell: rq.RQRuntime, times: int) -> None:
    for _ in range(times):
        bell.ring("default")


def test_many_rings_at_once_make_one_job(crew: Callable[[int], Crew], redis: Redis) -> None:
    outcomes = crew(16).together(*[partial(ring_often, rq.RQRuntime(), 20)] * 16)
    assert not errors(outcomes)
    assert len(rq.open_queue("default").job_ids) == 1
    # One client and its connections for the process, not one for each ring.
    assert len(redis.client_list()) <= 16 + 2


def test_many_sweeps_that_ring_again_at_once_pile_up_no_jobs(
    crew: Callable[[int], Crew], redis: Redis
) -> None:
    bell = rq.RQRuntime()
    bell.ring("default")
    crew(8).together(*[partial(bell.ring_again, "default")] * 8)
    assert len(rq.open_queue("default").job_ids) == 1


def test_no_ring_goes_unheard_while_jobs_are_picked_up(crew: Callable[[int], Crew], redis: Redis) -> None:
    """Each ringer makes a run ready and then rings; a worker picks the job up, and then looks."""
    bell, lock = rq.RQRuntime(), threading.Lock()
    ready = seen = 0
    all_rung = threading.Event()

    def make_ready_and_ring() -> None:
        nonlocal ready
        for _ in range(50):
            with lock:
                ready += 1
            bell.ring("default")

    def answer_bells() -> None:
        nonlocal seen
        queue = rq.open_queue("default")
        while True:
            was_last = all_rung.is_set()
            if queue.connection.lpop(queue.key) is not None:
                bell.picked_up("default")
                with lock:
                    seen = ready
            elif was_last:
                return

    threads = crew(8)
    workers = [threads.begin(answer_bells) for _ in range(2)]
    ringers: list[Any] = [threads.begin(make_ready_and_ring) for _ in range(6)]
    for ringer in ringers:
        ringer.result(PATIENCE)
    all_rung.set()
    for worker in workers:
        worker.result(PATIENCE)
    assert (ready, seen) == (300, 300)
