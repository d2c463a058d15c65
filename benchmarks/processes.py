"""The other processes of a measurement: workers, the scheduler, and the producer of work."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management import get_commands
from redis import Redis
from rq import Queue, Worker

from . import settings

QUEUE = "default"
# What an interrupted run left behind may be emptied.
MARK = "stephooks:bench"

WORKERS = {
    "tuned": ["stephooks_worker", QUEUE],
    "simple": ["rqworker", "--worker-class", "rq.worker.SimpleWorker", "-v", "0", QUEUE],
    "forking": ["rqworker", "--worker-class", "rq.worker.Worker", "-v", "0", QUEUE],
}


def redis() -> Redis:
    # No timeout: it waits for answers that may take long.
    return Redis.from_url(settings.REDIS_URL, socket_timeout=None)


@contextlib.contextmanager
def own_redis() -> Iterator[None]:
    """An empty Redis database; refuses one that somebody else put something into."""
    client = redis()
    if client.dbsize() and not client.exists(MARK):
        sys.exit(f"{settings.REDIS_URL} is in use. Name an empty one in STEPHOOKS_BENCH_REDIS.")
    empty_redis()
    try:
        yield
    finally:
        client.flushdb()


def empty_redis() -> None:
    client = redis()
    client.flushdb()
    client.set(MARK, 1)


def best_worker() -> str:
    return "tuned" if "stephooks_worker" in get_commands() else "simple"


@contextlib.contextmanager
def command(*arguments: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A management command in a process of its own; what it says goes to `log`."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "django", *arguments],
            env={**os.environ, "DJANGO_SETTINGS_MODULE": settings.__name__},
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def workers(count: int, kind: str, *, log: Path) -> Iterator[None]:
    """So many worker processes, ready to work."""
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(command(*WORKERS[kind], log=log)) for _ in range(count)]
        queue = Queue(QUEUE, connection=redis())
        while Worker.count(queue=queue) < count:
            if any(process.poll() is not None for process in processes):
                sys.exit(f"A worker ended at once. It said:\n{log.read_text()}")
            time.sleep(0.05)
        yield
    # A worker that ends is unknown to Redis from then on; the next count begins at nothing.
    while Worker.count(queue=queue):
        time.sleep(0.05)


class Producer:
    """`producer.main` in a process of its own."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.producer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()

    def do(self, action: str, **arguments: Any) -> Any:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps({"do": action, **arguments}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"The producer ended in the middle of {action!r}.")
        return json.loads(line)
