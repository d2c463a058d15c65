"""The runtime without workers: turns run in the process that rang, right after its commit.

For tests, notebooks and small sites: it needs nothing but the database.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context

from django.db import connections
from django.utils.module_loading import import_string

from .base import WORK, Runtime

logger = logging.getLogger("django_stephooks")


class InlineRuntime(Runtime):
    """Works on the queue before `ring` returns.

    A bell rung by a turn (a run that starts another one) is answered after that turn, by whoever
    is already working in this thread: a chain of runs is a loop, not a recursion.
    """

    def __init__(self) -> None:
        self._thread = threading.local()

    def ring(self, queue: str) -> None:
        waiting: deque[str] | None = getattr(self._thread, "waiting", None)
        if waiting is not None:
            if queue not in waiting:
                waiting.append(queue)
        elif _in_event_loop():
            # A turn uses the ORM and may start an event loop of its own; both are refused in a
            # thread whose loop is running (a notebook's). Waiting for the other thread keeps the
            # promise that the turn is over when `ring` returns.
            with ThreadPoolExecutor(1, thread_name_prefix="stephooks-inline") as elsewhere:
                elsewhere.submit(self._drain_elsewhere, queue).result()
        else:
            self._drain(queue)

    def _drain_elsewhere(self, queue: str) -> None:
        try:
            self._drain(queue)
        finally:
            connections.close_all()

    def _drain(self, queue: str) -> None:
        self._thread.waiting = waiting = deque([queue])
        try:
            while waiting:
                self._work(waiting.popleft())
        finally:
            del self._thread.waiting

    def _work(self, queue: str) -> None:
        try:
            # In an empty context, as in a worker: the turn must not see that it was started from
            # inside another run, nor this request's language or time zone.
            Context().run(import_string(WORK), queue)
        except Exception:
            # The caller has committed and did nothing wrong.
            logger.exception("Working on queue %r failed.", queue)


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
