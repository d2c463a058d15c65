"""What `manage.py stephooks_worker` does: workers one after the other, in one process or in several."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import uuid4

from django.core.exceptions import ImproperlyConfigured
from django_rq.workers import get_worker
from redis.exceptions import RedisError
from rq.logutils import setup_loghandlers

from django_stephooks.conf import app_settings

from . import rq
from .base import get_runtime
from .limits import Limits
from .supervisor import REPLACE, Supervisor
from .worker import TurnWorker

logger = logging.getLogger("django_stephooks.worker")

LONGEST_PAUSE = 5.0


@dataclass(frozen=True, kw_only=True)
class Work:
    """What `stephooks_worker` was asked to do."""

    queues: tuple[str, ...]
    burst: bool = False
    with_scheduler: bool = False
    logging_level: str = "INFO"
    limits: Limits = field(default_factory=Limits)
    # Seconds that a turn has to end in when the worker is told to stop; None for as long as it takes.
    grace: float | None = None
    worker_options: dict[str, Any] = field(default_factory=dict)
    name: str = ""

    def run(self) -> bool:
        """Work until told to stop, or in burst mode until all is done; False if a limit was reached.

        Redis may come and go: a new worker begins when it is back. In burst mode ConnectionError is raised.
        """
        setup_loghandlers(self.logging_level, name=logger.name)
        pause = 0.25
        while True:
            began = time.monotonic()
            try:
                with self._worker() as worker:
                    worker.work(
                        burst=self.burst,
                        logging_level=self.logging_level,
                        with_scheduler=self.with_scheduler,
                    )
                    if worker.was_asked_to_stop or worker.is_done:
                        return True
                    if self.limits.reached():
                        return False
                    logger.warning("The worker's loop ended; it begins anew.")
            except RedisError as error:
                # Only the kind of error: its text may hold an address or a password.
                if self.burst:
                    raise ConnectionError(f"Redis can not be reached ({type(error).__name__}).") from None
                logger.warning("The worker can not reach Redis (%s).", type(error).__name__)
            if time.monotonic() - began > LONGEST_PAUSE:
                pause = 0.25
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    @contextmanager
    def _worker(self) -> Iterator[TurnWorker]:
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        # Its own name each time: Redis may still know the last one's as alive.
        name = f"{self.name}-{uuid4().hex[:8]}" if self.name else uuid4().hex
        options: dict[str, Any] = {"worker_class": TurnWorker, "limits": self.limits, "grace": self.grace}
        worker = cast(TurnWorker, get_worker(*self.queues, name=name, **options, **self.worker_options))
        if "serializer" not in self.worker_options:
            worker.serializer = worker.queues[0].serializer
        rq.let_decide(worker)
        try:
            yield worker
        finally:
            rq.let_decide(None)
            # While there is no worker there is nothing to finish either: a signal ends the process.
            for number, handler in before.items():
                signal.signal(number, handler)
            worker.connection.close()


def main(work: Work, *, processes: int) -> int:
    """What `stephooks_worker` does; the exit status. ImproperlyConfigured if the settings do not fit."""
    if not isinstance(get_runtime(), rq.RQRuntime):
        raise ImproperlyConfigured(
            f"STEPHOOKS['RUNTIME'] is {app_settings.RUNTIME!r}: its bell is not heard by RQ. Set it to 'rq'."
        )
    if len({repr(rq.open_queue(name).serializer) for name in work.queues}) > 1:
        raise ImproperlyConfigured("The queues of one worker must have the same SERIALIZER in RQ_QUEUES.")
    if processes == 1 and not work.limits:
        return 0 if work.run() else 1
    supervisor = Supervisor(lambda: 0 if work.run() else REPLACE, processes, burst=work.burst)
    setup_loghandlers(work.logging_level, name=logger.name)
    return supervisor.run()
