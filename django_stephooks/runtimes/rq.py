"""The runtime with RQ: a bell is one small job that works on every ready run of its queue.

A key in Redis says "a bell has been rung and not picked up yet". It is set before a job is pushed
and deleted when the job starts, before its first claim, so rings in between need no job of their
own and no ring is lost: either the key is gone and a new job comes, or a job that has not looked
yet will see the run. What Redis loses (a crash between the two calls, FLUSHALL) the sweep's
`ring_again` makes good.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections
from django.utils.module_loading import import_string
from django_rq.connection_utils import get_redis_connection
from django_rq.queues import get_queue
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.retry import Retry
from rq import Queue, Worker, get_current_job
from rq.exceptions import DuplicateJobError
from rq.utils import as_text

from django_stephooks.conf import app_settings

from .base import WORK, Runtime
from .inline import InlineRuntime

if TYPE_CHECKING:
    from django_stephooks.models import Run

    from .streams import Stream
    from .worker import TurnWorker

logger = logging.getLogger("django_stephooks")

SWEEP = "django_stephooks.services.sweep.sweep"

# Held by a running rq-scheduler.
SCHEDULER_LOCK = "rq:scheduler_lock"

# Whoever rings may be a web request: it waits this long for Redis at most, …
CONNECT_SECONDS = 1
ANSWER_SECONDS = 2
# … and after an error the process leaves Redis alone for ten times as long as the error took.
QUIET_FACTOR = 10
QUIET_SECONDS = (1, 30)

# A job that makes many turns asks this often whether its `rqworker` was told to stop meanwhile.
ASK_WORKER_SECONDS = 0.25


class RQRuntime(Runtime):
    """Pushes at most one waiting job per queue. Errors of Redis are logged, never raised."""

    def __init__(self) -> None:
        self._inline = InlineRuntime()

    def ring(self, queue: str) -> None:
        self._try(self._ring, queue)

    def ring_again(self, queue: str) -> None:
        self._try(self._ring_again, queue)

    def picked_up(self, queue: str) -> None:
        # Also in a quiet period: a key left behind would silence this queue until the next sweep.
        self._try(self._picked_up, queue, even_if_quiet=True)

    def may_go_on(self, queue: str) -> bool:
        return _process().may_go_on()

    def stream(self, run: Run) -> Stream:
        from .redis_streams import RedisStream

        return RedisStream(run)

    def diagnose(self, queue: str) -> Iterator[tuple[bool, str, str]]:
        subject = f"queue {queue}"
        try:
            rq_queue = open_queue(queue)
            rq_queue.connection.ping()
            workers = Worker.count(queue=rq_queue)
            schedulers = rq_queue.connection.exists(SCHEDULER_LOCK)
        except ImproperlyConfigured as error:
            yield False, subject, str(error)
        except RedisError as error:
            yield False, "Redis", f"It does not answer for {subject} ({type(error).__name__}). Start it."
        else:
            if workers or not rq_queue.is_async:
                yield True, subject, f"{workers} workers, {len(rq_queue)} jobs waiting"
            else:
                yield False, subject, f"Nobody works on it. Start `manage.py stephooks_worker {queue}`."
            if queue == app_settings.QUEUE:
                todo = "None is running. Start `manage.py stephooks_scheduler`, unless something else sweeps."
                yield bool(schedulers), "scheduler", "running" if schedulers else todo

    def _ring(self, queue: str) -> None:
        rq_queue = open_queue(queue)
        if not rq_queue.is_async:
            # RQ_QUEUES[…]["ASYNC"] = False asks for "no worker"; RQ would recurse within a turn.
            self._inline.ring(queue)
            return
        job_id = _process().new_job_id()
        if rq_queue.connection.set(_key(queue), job_id, nx=True):
            _push(rq_queue, job_id)

    def _ring_again(self, queue: str) -> None:
        rq_queue = open_queue(queue)
        waiting = rq_queue.connection.get(_key(queue)) if rq_queue.is_async else None
        if waiting is None:
            self._ring(queue)
        elif rq_queue.get_job_position(as_text(waiting)) is None:
            # The bell was lost, or it is just being picked up: then one job too many looks around.
            job_id = _process().new_job_id()
            rq_queue.connection.set(_key(queue), job_id)
            _push(rq_queue, job_id)

    def _picked_up(self, queue: str) -> None:
        rq_queue = open_queue(queue)
        if rq_queue.is_async:
            rq_queue.connection.delete(_key(queue))

    def _try(self, action: Callable[[str], None], queue: str, *, even_if_quiet: bool = False) -> None:
        try:
            with unless_quiet(queue) as quiet:
                if even_if_quiet or not quiet:
                    action(queue)
        except RedisError as error:
            # Only the kind of error: its text may hold an address or a password.
            logger.warning(
                "Redis could not be told about work in queue %r (%s). "
                "Nothing is lost: the sweep rings again.",
                queue,
                type(error).__name__,
            )
        except ImproperlyConfigured:
            logger.exception("There is work in queue %r, but nobody can be told.", queue)


def _key(queue: str) -> str:
    return f"stephooks:bell:{queue}"


def _push(queue: Queue, job_id: str) -> None:
    # A duplicate: the connection broke when Redis had the job, and redis-py sent it once more.
    with contextlib.suppress(DuplicateJobError):
        queue.enqueue_call(
            f"{__name__}.{job.__name__}",
            args=(queue.name,),
            # The engine ends a turn that takes too long, and knows why; RQ's clock would only
            # cut off whichever run happens to be worked on at that moment.
            timeout=-1,
            result_ttl=0,
            failure_ttl=60,
            # Any staff user reads this on the RQ dashboard.
            description=f"Work on the ready runs of queue {queue.name}",
            job_id=job_id,
            unique=True,
        )


def job(queue: str, *_later: object, **_more: object) -> None:
    """What a worker runs for a bell. Arguments of another version are ignored, not an error."""
    _with_fresh_connections(lambda: import_string(WORK)(queue))


def sweep_job(*_later: object, **_more: object) -> None:
    """What a worker runs for the scheduler's periodic job."""
    _with_fresh_connections(import_string(SWEEP))


def _with_fresh_connections(function: Callable[[], Any]) -> None:
    # A SimpleWorker keeps its database connection between jobs, also one that the server dropped.
    close_old_connections()
    try:
        function()
    finally:
        close_old_connections()


@contextlib.contextmanager
def unless_quiet(about: str) -> Iterator[bool]:
    """Gives whether Redis is to be left alone, after an error that was met in such a block about the same."""
    process = _process()
    began = time.monotonic()
    try:
        yield began < process.quiet_until.get(about, 0)
    except RedisError:
        ended = time.monotonic()
        shortest, longest = QUIET_SECONDS
        process.quiet_until[about] = ended + min(max(shortest, QUIET_FACTOR * (ended - began)), longest)
        raise


def open_queue(name: str) -> Queue:
    """The RQ queue of this name, over this process's one connection to its Redis."""
    return _process().open(name)


class _Process:
    """What a fork must not share: sockets, the counter of job ids, the quiet after an error."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.quiet_until: dict[str, float] = {}
        self.worker: TurnWorker | None = None
        self.ask_worker_at = 0.0
        self._prefix = secrets.token_hex(6)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._clients: list[tuple[dict[str, Any], Redis]] = []
        self._queues: dict[str, tuple[dict[str, Any], Queue]] = {}

    def may_go_on(self) -> bool:
        """Whether the worker that this process belongs to has not been told to stop."""
        if self.worker is not None:
            return self.worker.may_go_on()
        job = get_current_job()
        if job is None or time.monotonic() < self.ask_worker_at:
            return True
        self.ask_worker_at = time.monotonic() + ASK_WORKER_SECONDS
        # The signal came to `rqworker` itself, which may be the parent of this process.
        key = f"{Worker.redis_worker_namespace_prefix}{job.worker_name}"
        try:
            return not job.connection.hexists(key, "shutdown_requested_date")
        except RedisError:
            return True

    def new_job_id(self) -> str:
        return f"stephooks-bell-{self._prefix}-{next(self._numbers)}"

    def open(self, name: str) -> Queue:
        configs: dict[str, Any] = getattr(settings, "RQ_QUEUES", {})
        config = configs.get(name)
        if config is None:
            raise ImproperlyConfigured(
                f"There is no queue {name!r} in RQ_QUEUES. It has: {', '.join(map(repr, configs)) or 'none'}."
            )
        with self._lock:
            known = self._queues.get(name)
            # Compared at each call, because tests change the settings.
            if known is None or known[0] != config:
                # commit_mode: django-rq would wait for the commit of the database "default" only.
                queue = get_queue(name, connection=self._client(config), commit_mode="auto")
                self._queues[name] = known = (dict(config), queue)
            return known[1]

    def _client(self, config: dict[str, Any]) -> Redis:
        address = {key: value for key, value in config.items() if key not in _NOT_OF_THE_CONNECTION}
        for known, client in self._clients:
            if known == address:
                return client
        client = connect(config)
        self._clients.append((address, client))
        return client


_NOT_OF_THE_CONNECTION = {
    "ASYNC",
    "DEFAULT_TIMEOUT",
    "DEFAULT_RESULT_TTL",
    "QUEUE_CLASS",
    "SERIALIZER",
}


def connect(config: dict[str, Any]) -> Redis:
    """A client as django-rq builds it from this entry of RQ_QUEUES, but one that gives up soon."""
    client = get_redis_connection(config)
    if "USE_REDIS_CACHE" not in config:  # that client is the project's own; its cache uses it too
        client.connection_pool.connection_kwargs.update(
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=ANSWER_SECONDS,
            **one_try_more(),
        )
    return client


def one_try_more() -> dict[str, Any]:
    """How a client deals with errors; redis-py would try ten times with growing pauses.

    One try more is right: the server may have closed a connection that was idle.
    """
    return {
        "retry": Retry(NoBackoff(), 1, (RedisConnectionError,)),
        "retry_on_error": [],
        "retry_on_timeout": False,
    }


def let_decide(worker: TurnWorker | None) -> None:
    """From now on this worker says whether the jobs of this process may go on with further runs."""
    _process().worker = worker


_here = _Process()


def _process() -> _Process:
    global _here
    if _here.pid != os.getpid():
        _here = _Process()
    return _here
