"""Looks into Redis while everything is on fire, before it is flushed: what is in it, and what failed."""

from __future__ import annotations

import contextlib
import hashlib
import time
from pathlib import Path

from redis.exceptions import RedisError
from rq import Queue
from rq.exceptions import NoSuchJobError
from rq.job import Job
from rq.registry import FailedJobRegistry

from tests.acceptance.processes import everything_in

from .crew import QUEUES
from .diary import Diary
from .servers import RedisServer

EVERY = 1.0


class Watch:
    """Keeps each value that ever was in Redis in `redis.dump`, and each failed job."""

    def __init__(self, directory: Path, redis: RedisServer) -> None:
        self.redis = redis
        self.dump = (directory / "redis.dump").open("ab")
        self.failed = Diary(directory / "failed-jobs.jsonl")
        self.known: set[bytes] = set()
        self.known_jobs: set[str] = set()
        self.next = 0.0

    def look(self, *, final: bool = False) -> None:
        if time.monotonic() < self.next and not final:
            return
        # If it is down, or stopped, what it holds is looked at later, or gone.
        with contextlib.suppress(RedisError):
            self._look()
        self.next = time.monotonic() + EVERY

    def _look(self) -> None:
        for value in everything_in(self.redis.client).split(b"\n"):
            digest = hashlib.blake2b(value, digest_size=12).digest()
            if digest not in self.known:
                self.known.add(digest)
                self.dump.write(value + b"\n")
        for name in QUEUES:
            queue = Queue(name, connection=self.redis.client)
            for job_id in FailedJobRegistry(queue=queue).get_job_ids(cleanup=False):
                if job_id not in self.known_jobs:
                    self.known_jobs.add(job_id)
                    self._note(queue, job_id)

    def _note(self, queue: Queue, job_id: str) -> None:
        try:
            job = Job.fetch(job_id, connection=queue.connection)
            result = job.latest_result()
        except NoSuchJobError:
            return
        # The sweep is one job for ever: the registry may still name it for the last time it failed.
        if job.is_failed:
            said = result.exc_string if result is not None else ""
            self.failed.write("failed job", id=job_id, queue=queue.name, exc_info=said or "")

    def close(self) -> None:
        self.dump.close()
