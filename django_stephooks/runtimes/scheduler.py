"""rq-scheduler, hardened: the clock that makes the sweep happen, whatever Redis goes through.

It looks into the database for the next deadline, so the sweep comes at that moment and not only at
each interval. Workers sweep; while they are all busy, or down, the scheduler does it itself.

Run by `manage.py stephooks_scheduler`, or by plain `manage.py rqscheduler` with

    RQ = {"SCHEDULER_CLASS": "django_stephooks.runtimes.scheduler.SweepScheduler"}

Jobs that the project schedules itself are treated with the same care. Two schedulers may run side
by side; one works at a time.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import django.db
from django.db import close_old_connections
from django.utils.module_loading import import_string
from django_rq.queues import DjangoScheduler
from redis import Redis
from redis.exceptions import RedisError, ResponseError
from rq import Queue
from rq.exceptions import NoSuchJobError
from rq.job import Job
from rq_scheduler.utils import get_next_scheduled_time, rationalize_until, to_unix

from django_stephooks.conf import app_settings
from django_stephooks.durations import parse_duration

from . import rq

logger = logging.getLogger("django_stephooks")

# By name, as the sweep is: runtimes may not import services.
UNTIL_DUE = "django_stephooks.services.sweep.seconds_until_due"

SWEEP_ID = "stephooks-sweep"
# How often it is looked whether something is due before the next interval, and how often at most.
LOOK_SECONDS = 1
LEAST_SECONDS = 0.25
# A killed scheduler's lock is gone after this long; a working one keeps renewing it.
LOCK_SECONDS = 10
LONGEST_PAUSE = 5


class SweepScheduler(DjangoScheduler):
    """Pushes the sweep every `STEPHOOKS["SWEEP_INTERVAL"]`, and the project's scheduled jobs."""

    def __init__(
        self,
        queue_name: str = "default",
        queue: Queue | None = None,
        interval: float = 60,
        connection: Redis | None = None,
        *args: Any,
        sweep_interval: float | None = None,
        **kwargs: Any,
    ) -> None:
        if sweep_interval is None:
            sweep_interval = parse_duration(app_settings.SWEEP_INTERVAL).total_seconds()
        self.sweep_interval = sweep_interval
        # `rqscheduler` looks once a minute unless told otherwise: too late for deadlines.
        interval = min(interval, sweep_interval)
        super().__init__(queue_name, queue, interval, connection, *args, **kwargs)
        self._lock_token = uuid4().hex.encode()
        self._lock_renewed_at = 0.0
        self._pause = self._interval

    # --- the sweep's own entry in the schedule ---

    def register_sweep(self) -> None:
        """Put the sweep (back) on the schedule, if Redis has lost its entry or its job."""
        now = time.time()
        with self.connection.pipeline(transaction=False) as pipe:
            pipe.exists(self.job_class.key_for(SWEEP_ID))
            pipe.zscore(self.scheduled_jobs_key, SWEEP_ID)
            known, due = pipe.execute()
        if due is None or due > now + self.sweep_interval:  # lost, or of a longer interval
            self.connection.zadd(self.scheduled_jobs_key, {SWEEP_ID: now})
        if not known:
            self._sweep_job().save()

    def _sweep_job(self) -> Job:
        # Made anew each time and never read back: nothing that is in Redis can break it.
        queue = rq.open_queue(app_settings.QUEUE)
        job = self._create_job(  # type: ignore[no-untyped-call]
            f"{rq.__name__}.{rq.sweep_job.__name__}",
            commit=False,
            id=SWEEP_ID,
            queue_name=queue.name,
            description="Enforce deadlines, fire timers, recover runs",
            timeout=600,
            # The job stays in Redis between two sweeps: the dashboard drops what it can not find.
            result_ttl=-1,
        )
        # rq-scheduler only knows pickle; the workers of this queue may know only JSON.
        job.serializer = queue.serializer
        job.failure_ttl = 60
        job.meta["interval"] = max(1, round(self.sweep_interval))  # for whoever reads the schedule
        return job  # type: ignore[no-any-return]

    def _look_for_due(self) -> None:
        """Bring the sweep forward if something is due; note when to look again."""
        longest = min(LOOK_SECONDS, self._interval)
        try:
            seconds = import_string(UNTIL_DUE)(longest=longest)
        except django.db.Error as error:
            logger.warning("The scheduler could not use the database: %s", error)
            close_old_connections()
            # Each try may take long; meanwhile the sweep comes at its intervals.
            self._pause = self._interval
            return
        if not seconds:
            self.connection.zadd(self.scheduled_jobs_key, {SWEEP_ID: time.time()})
        self._pause = max(seconds, min(LEAST_SECONDS, longest))

    def _sweep_here(self) -> None:
        try:
            rq.sweep_job()
        except django.db.Error as error:
            logger.warning("The sweep could not use the database: %s", error)

    # --- moving what is due into the queues ---

    def enqueue_jobs(self) -> None:
        self.register_sweep()
        self._look_for_due()
        for job in self.get_jobs_to_queue():
            try:
                self.enqueue_job(job)
            except Exception as error:
                if job.id == SWEEP_ID or _is_outage(error):
                    raise
                self._give_up(job.id)
            self._renew_lock()

    def get_jobs_to_queue(self, with_times: bool = False) -> Iterator[Any]:
        return self.get_jobs(time.time(), with_times=with_times)

    def get_jobs(
        self,
        until: Any = None,
        with_times: bool = False,
        offset: int | None = None,
        length: int | None = None,
    ) -> Iterator[Any]:
        """The scheduled jobs. One that can not be read is taken off the schedule and logged."""
        entries = self.connection.zrangebyscore(
            self.scheduled_jobs_key,
            0,
            rationalize_until(until),
            start=offset,
            num=length,
            withscores=True,
        )
        for raw_id, score in entries:
            # No job of RQ's is called by bytes that are no text.
            job = self._read(raw_id.decode(errors="surrogateescape"))
            if job is not None:
                yield (job, _naive_utc(score)) if with_times else job

    def _read(self, job_id: str) -> Job | None:
        if job_id == SWEEP_ID:
            return self._sweep_job()
        try:
            return self.job_class.fetch(job_id, connection=self.connection)  # type: ignore[no-any-return]
        except NoSuchJobError:
            pass
        except Exception as error:
            if _is_outage(error):
                raise
            self._give_up(job_id)
            return None
        self.cancel(job_id)
        return None

    def _give_up(self, job_id: str) -> None:
        """Else whatever it is (a class that is gone, a meta of another serializer, a queue that is not
        there) would stop every other job at every tick. Called where the error is handled.
        """
        logger.exception("Scheduled job %r can not be read or queued; it is taken off the schedule.", job_id)
        self.connection.zrem(self.scheduled_jobs_key, job_id.encode(errors="surrogateescape"))

    def enqueue_job(self, job: Job) -> None:
        """Push a job that is due, unless it still waits for a worker from the last time."""
        is_sweep = job.id == SWEEP_ID
        queue = rq.open_queue(app_settings.QUEUE) if is_sweep else self.get_queue_for_job(job)
        waiting = queue.get_job_position(job.id) is not None
        next_time = self._next_time(job, waiting=waiting)
        # Re-armed first: a crash between the two calls skips one time instead of all.
        if next_time is not None:
            self.connection.zadd(self.scheduled_jobs_key, {job.id: next_time})
        if not waiting:
            queue.enqueue_job(job, at_front=is_sweep or bool(job.enqueue_at_front))
        elif is_sweep:
            self._sweep_here()
        if next_time is None:
            self.cancel(job.id)

    def _next_time(self, job: Job, *, waiting: bool) -> float | None:
        """When the job is due again, in Unix time; None if it is not."""
        if job.id == SWEEP_ID:
            # On a fixed grid, so that a tick one interval from now is never a moment too early.
            return (time.time() // self.sweep_interval + 1) * self.sweep_interval
        repeat = job.meta.get("repeat")
        if repeat and not waiting:
            job.meta["repeat"] = repeat = int(repeat) - 1
        if repeat == 0:
            return None
        if interval := job.meta.get("interval"):
            return time.time() + int(interval)
        if cron := job.meta.get("cron_string"):
            local = job.meta.get("use_local_timezone")
            return float(to_unix(get_next_scheduled_time(cron, use_local_timezone=local)))
        return None

    # --- one scheduler at a time ---

    def acquire_lock(self) -> bool:
        token, key = self._lock_token, self.scheduler_lock_key
        taken = self.connection.set(key, token, ex=LOCK_SECONDS, nx=True)
        # Its own lock from before an outage is not another's.
        self._lock_acquired = bool(taken) or self.connection.get(key) == token
        self._renew_lock(after=0)
        return self._lock_acquired

    def remove_lock(self) -> None:
        # Redis is asked whose lock it is. A tick may have taken so long that it is another's by now,
        # or a signal may have come before `acquire_lock` could note that it is this one's.
        if self.connection.get(self.scheduler_lock_key) == self._lock_token:
            self.connection.delete(self.scheduler_lock_key)
        self._lock_acquired = False

    def _renew_lock(self, *, after: float = LOCK_SECONDS / 4) -> None:
        now = time.monotonic()
        if self._lock_acquired and now >= self._lock_renewed_at + after:
            self.connection.expire(self.scheduler_lock_key, LOCK_SECONDS)
            self._lock_renewed_at = now

    # --- staying alive ---

    def heartbeat(self) -> None:
        if not self.connection.expire(self.key, int(self._interval) + 10):
            self.register_birth()  # flushed

    def run(self, burst: bool = False) -> None:
        """Work until told to stop. Redis may come and go; with `burst`, one tick is made."""
        if threading.current_thread() is threading.main_thread():
            self._install_signal_handlers()
        pause = 0.25
        try:
            while True:
                try:
                    began = time.monotonic()
                    worked = self._tick()
                    pause = 0.25
                    if burst and worked:
                        return
                    time.sleep(max(0, self._pause - (time.monotonic() - began)))
                except RedisError as error:
                    logger.warning("The scheduler can not reach Redis (%s).", type(error).__name__)
                    # The old name may still count as a living scheduler when Redis is back.
                    self.name = uuid4().hex
                    self._lock_acquired = False
                    time.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
        finally:
            self._leave()

    def _tick(self) -> bool:
        self.heartbeat()
        if not self.acquire_lock():
            logger.debug("Another scheduler is at work.")
            self._pause = self._interval
            return False
        self.enqueue_jobs()
        self.remove_lock()
        return True

    def _leave(self) -> None:
        try:
            self.remove_lock()
            self.register_death()
        except RedisError:
            logger.warning("The scheduler leaves without Redis; its lock runs out by itself.")

    def _install_signal_handlers(self) -> None:
        def stop(signum: int, frame: Any) -> None:
            # Cleaning up is for `run`: Redis must not be needed here, and may be in mid-call.
            raise SystemExit

        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)


def _naive_utc(score: float) -> datetime:
    # What rq-scheduler gives and its dashboard expects.
    return datetime.fromtimestamp(score, UTC).replace(tzinfo=None)


def _is_outage(error: Exception) -> bool:
    """Of Redis itself: it says nothing about the job that was dealt with."""
    is_wrong_type = isinstance(error, ResponseError) and str(error).startswith("WRONGTYPE")
    return isinstance(error, RedisError) and not is_wrong_type


def run(*, interval: float | None = None) -> None:
    """Run the scheduler for `STEPHOOKS["QUEUE"]` until a signal; sweep every `interval` seconds."""
    queue = rq.open_queue(app_settings.QUEUE)
    seconds = interval or parse_duration(app_settings.SWEEP_INTERVAL).total_seconds()
    scheduler = SweepScheduler(
        queue_name=queue.name,
        queue=queue,
        interval=seconds,
        connection=queue.connection,
        job_class=queue.job_class,
        sweep_interval=seconds,
    )
    scheduler.run()
