"""The worker of `manage.py stephooks_worker`: RQ's, without a fork per job, tuned for turns.

It differs from `rq.SimpleWorker` in what a long-lived process needs: a signal ends it between two
turns of a batch, limits end it likewise, no outage of Redis or of the database ends it at all, and
while it is idle it looks for ready runs whose bell was lost. Other jobs of its queues run as ever.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from datetime import datetime, timedelta
from types import FrameType
from typing import Any

from django.db import Error as DatabaseDown
from django.db import close_old_connections, connections
from django.utils import timezone
from django.utils.module_loading import import_string
from redis import Redis
from redis.exceptions import RedisError
from rq import Queue, SimpleWorker, worker_registration
from rq.exceptions import DequeueTimeout, StopRequested
from rq.job import Job
from rq.worker import WorkerStatus

from django_stephooks.models import Run
from django_stephooks.models.transactions import write_alias

from . import rq
from .base import HAND_BACK, get_runtime
from .limits import Limits
from .pulse import Pulse

# How often a worker looks whether a bell was lost, …
LOOK_SECONDS = 1
# … for runs that have been ready for longer than a bell takes.
BELL_SECONDS = timedelta(seconds=1)
# Told to stop twice within this time is told once: by the terminal and by the parent, say.
SAME_SIGNAL = timedelta(seconds=1)
HAND_BACK_SECONDS = 5


class TurnWorker(SimpleWorker):
    """A worker that is told to stop between two turns, and knows why it stopped."""

    # So its connections wait for an answer of Redis for a few seconds more, and not for minutes.
    dequeue_timeout = LOOK_SECONDS

    def __init__(
        self, *args: Any, limits: Limits | None = None, grace: float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.limits = limits or Limits()
        self.grace = grace
        self.pulse = Pulse(self)
        self.is_done = False
        self.asked_to_stop_at: datetime | None = None
        self._saw_database = True
        self._look_at = 0.0

    @property
    def was_asked_to_stop(self) -> bool:
        return self.asked_to_stop_at is not None

    # --- between two turns, and between two jobs ---

    def may_go_on(self) -> bool:
        self.limits.count_turn()
        return not self._stop_requested and not self._reached_limit()

    def _reached_limit(self) -> bool:
        if (reached := self.limits.reached()) and not self._stop_requested:
            self.log.info("Worker %s: %s, quitting", self.name, reached)
            self._stop_requested = True
        return bool(reached)

    def execute_job(self, job: Job, queue: Queue) -> None:
        # Other jobs than ours need it as well: nothing else closes what the server has dropped.
        close_old_connections()
        try:
            super().execute_job(job, queue)
        finally:
            close_old_connections()
        self._reached_limit()

    def prepare_execution(self, job: Job) -> Any:
        execution = super().prepare_execution(job)
        self.pulse.begin(job, execution)
        return execution

    def cleanup_execution(self, job: Job, *args: Any, **kwargs: Any) -> None:
        self.pulse.end()  # or a heartbeat would bring back what is removed here
        super().cleanup_execution(job, *args, **kwargs)

    # --- waiting ---

    def dequeue_job_and_maintain_ttl(
        self, timeout: int | None, max_idle_time: int | None = None
    ) -> tuple[Job, Queue] | None:
        """The next job; None if there is none in burst mode. Never interrupted with a job in hand."""
        try:
            found = self._dequeue(timeout)
        except RedisError as error:
            self.log.warning("Worker %s: Redis does not answer (%s)", self.name, type(error).__name__)
            raise StopRequested from error
        self.is_done = found is None
        return found

    def _dequeue(self, timeout: int | None) -> tuple[Job, Queue] | None:
        self.set_state(WorkerStatus.IDLE)
        while not self._stop_requested:
            self._stay_registered()
            if self.should_run_maintenance_tasks:
                self.run_maintenance_tasks()  # type: ignore[no-untyped-call]
            if not timeout:
                self.ring_for_ready(timedelta(0))
            elif time.monotonic() >= self._look_at:
                self.ring_for_ready(BELL_SECONDS)
                self._look_at = time.monotonic() + LOOK_SECONDS
            with suppress(DequeueTimeout):
                found = self.queue_class.dequeue_any(
                    self._ordered_queues,
                    timeout,
                    connection=self.connection,
                    job_class=self.job_class,
                    serializer=self.serializer,
                    death_penalty_class=self.death_penalty_class,
                )
                if found is not None:
                    job, queue = found
                    self.reorder_queues(reference_queue=queue)
                    job.redis_server_version = self.get_redis_server_version()  # type: ignore[no-untyped-call]
                    self.log.info("Worker %s: %s: %s (%s)", self.name, queue.name, job.description, job.id)
                return found
        raise StopRequested

    def _stay_registered(self) -> None:
        """A heartbeat that finds out that Redis has forgotten this worker."""
        with self.connection.pipeline(transaction=False) as pipe:
            pipe.hexists(self.key, "birth")
            self.heartbeat(pipeline=pipe)
            known = pipe.execute()[0]
            if not known:
                pipe.hset(self.key, mapping=self.serialize())
                worker_registration.register(self, pipe)
                pipe.execute()

    def ring_for_ready(self, at_least: timedelta) -> None:
        """Ring for runs that are ready for that long: a worker killed with the bell in hand took it along."""
        try:
            ready = Run.objects.using(write_alias()).ready().filter(due_at__lte=timezone.now() - at_least)
            for queue in self.queue_names():
                if ready.filter(queue=queue).exists():
                    get_runtime().ring_again(queue)
        except DatabaseDown as error:
            # Once, not every second of a restart.
            log = self.log.warning if self._saw_database else self.log.debug
            log("Worker %s: the database can not be asked (%s)", self.name, type(error).__name__)
            self._saw_database = False
            # Only now: to connect anew for each look would cost more than the look.
            close_old_connections()
        else:
            self._saw_database = True

    # --- being told to stop ---

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        """Finish the turn at hand. Nothing is raised here: wherever the code is, it goes on."""
        self.asked_to_stop_at = timezone.now()
        self._stop_requested = True
        signal.signal(signal.SIGINT, self.request_force_stop)
        signal.signal(signal.SIGTERM, self.request_force_stop)
        self.handle_warm_shutdown_request()  # type: ignore[no-untyped-call]
        if self.grace is not None:
            timer = threading.Timer(self.grace, self._lose_patience)
            timer.daemon = True
            timer.start()

    def _lose_patience(self) -> None:
        self.asked_to_stop_at = timezone.now() - SAME_SIGNAL
        os.kill(os.getpid(), signal.SIGTERM)

    def request_force_stop(self, signum: int, frame: FrameType | None) -> None:
        """Give the turn at hand to another worker, and end at once."""
        if self.asked_to_stop_at and timezone.now() - self.asked_to_stop_at < SAME_SIGNAL:
            return
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.log.warning("Worker %s: hands back the turn at hand, and ends", self.name)
        # In another thread: this one may be in the middle of a transaction.
        leaving = threading.Thread(target=self._leave_behind, daemon=True)
        leaving.start()
        leaving.join(HAND_BACK_SECONDS)
        sys.stdout.flush()
        sys.stderr.flush()
        # Whatever the turn is doing, it does no more of it.
        os._exit(0)

    def _leave_behind(self) -> None:
        try:
            import_string(HAND_BACK)()
            self.ring_for_ready(timedelta(0))
            self.register_death()  # type: ignore[no-untyped-call]
        except (DatabaseDown, RedisError):
            self.log.warning("Worker %s: could not hand back its turn; its lease ends soon", self.name)
        finally:
            connections.close_all()

    def teardown(self) -> None:
        self.pulse.stop()
        # A bell that was heard and not answered any more.
        self.ring_for_ready(timedelta(0))
        try:
            super().teardown()  # type: ignore[no-untyped-call]
        except RedisError as error:
            self.log.warning("Worker %s: Redis is not told of its end (%s)", self.name, type(error).__name__)
            thread: Any = self.pubsub_thread
            if thread is not None:
                thread.stop()

    # --- Redis ---

    def _set_connection(self, connection: Redis) -> Redis:
        # What is tried again, and when, is for `working` to say.
        connection.connection_pool.connection_kwargs.update(rq.one_try_more())
        return super()._set_connection(connection)
