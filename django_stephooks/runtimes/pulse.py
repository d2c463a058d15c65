"""The heartbeat of a worker whose job takes long, from a thread beside it.

RQ's worker without forks is silent during a job. After a few minutes it would no longer count as a
worker, and another one would declare its job abandoned.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError
from rq.job import Job
from rq.utils import now

if TYPE_CHECKING:
    from .worker import TurnWorker

logger = logging.getLogger("django_stephooks.worker")


class Pulse:
    """Beats for the worker's job, from when it `begin`s until it `end`s, every `job_monitoring_interval`."""

    def __init__(self, worker: TurnWorker) -> None:
        self.worker = worker
        self.lock = threading.Lock()
        self.job: tuple[Job, Any] | None = None
        self.stopped = threading.Event()
        self.thread: threading.Thread | None = None

    def begin(self, job: Job, execution: Any) -> None:
        with self.lock:
            self.job = job, execution
        if self.thread is None:
            self.thread = threading.Thread(target=self._beat_on, name="stephooks-pulse", daemon=True)
            self.thread.start()

    def end(self) -> None:
        """When this returns, no heartbeat of the job is under way."""
        with self.lock:
            self.job = None

    def stop(self) -> None:
        self.end()
        self.stopped.set()

    def _beat_on(self) -> None:
        while not self.stopped.wait(self.worker.job_monitoring_interval):
            try:
                self.beat()
            except RedisError as error:
                logger.warning("No heartbeat: Redis can not be reached (%s).", type(error).__name__)

    def beat(self) -> None:
        worker = self.worker
        with self.lock:
            if self.job is None:
                return
            job, execution = self.job
            ttl = worker.get_heartbeat_ttl(job)
            with worker.connection.pipeline() as pipe:
                worker.heartbeat(ttl, pipeline=pipe)
                execution.heartbeat(job.started_job_registry, ttl, pipeline=pipe)
                job.heartbeat(now(), ttl, pipeline=pipe, xx=True)
                pipe.execute()
