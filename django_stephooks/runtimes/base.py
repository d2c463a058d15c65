"""The bell: how services and the engine say "there is work in this queue".

The ready rows in the database *are* the queue. A runtime only wakes somebody who looks into it, so
a bell may be lost, or ring once too often, and nothing is wrong: the sweep rings again, and a turn
that finds nothing to claim ends quietly.
"""

from __future__ import annotations

import difflib
import logging
from functools import lru_cache

from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.utils.module_loading import import_string

from django_stephooks.conf import app_settings

logger = logging.getLogger("django_stephooks")

# By name, because the engine rings bells and so may not be imported by those who answer them.
WORK = "django_stephooks.engine.worker.work"

RUNTIMES = {
    "rq": "django_stephooks.runtimes.rq.RQRuntime",
    "inline": "django_stephooks.runtimes.inline.InlineRuntime",
}


class Runtime:
    """Wakes a worker for a queue. To bring your own, name a subclass in `STEPHOOKS["RUNTIME"]`."""

    def ring(self, queue: str) -> None:
        """Have `WORK` called with this queue's name, soon. Many rings may end in one call."""
        raise NotImplementedError

    def ring_again(self, queue: str) -> None:
        """Ring for runs that have been ready for too long: from the sweep, every few seconds.

        The earlier bell may be lost, or workers may be busy or down: nothing may pile up then.
        """
        self.ring(queue)

    def picked_up(self, queue: str) -> None:
        """Somebody is about to look for ready runs: what is rung from now on is a new bell."""


def get_runtime() -> Runtime:
    """The runtime that `STEPHOOKS["RUNTIME"]` names."""
    return _runtime(str(app_settings.RUNTIME))


@lru_cache(maxsize=16)
def _runtime(name: str) -> Runtime:
    path = RUNTIMES.get(name, name)
    if "." not in path:
        near = difflib.get_close_matches(name, RUNTIMES, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ImproperlyConfigured(f"STEPHOOKS['RUNTIME'] is {name!r}.{hint} {_ACCEPTED}")
    try:
        runtime = import_string(path)
    except ImportError as error:
        remedy = "Install django-rq, or use 'inline'." if name == "rq" else _ACCEPTED
        raise ImproperlyConfigured(
            f"STEPHOOKS['RUNTIME'] is {name!r}, which could not be imported ({error}). {remedy}"
        ) from error
    if not (isinstance(runtime, type) and issubclass(runtime, Runtime)):
        raise ImproperlyConfigured(
            f"STEPHOOKS['RUNTIME'] is {name!r}, which is not a subclass of {__name__}.Runtime. {_ACCEPTED}"
        )
    return runtime()


_ACCEPTED = "It must be 'rq', 'inline', or the dotted path of a Runtime subclass."


class RingAfterCommit:
    """An on-commit callback that never raises: what was committed stays right without its bell."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        # Django 5.2 logs the name of a failed robust callback, and an instance has none.
        self.__qualname__ = type(self).__name__

    def __call__(self) -> None:
        try:
            get_runtime().ring(self.queue)
        except Exception:
            # Whatever it is, the caller's work is committed.
            logger.exception("The bell for queue %r could not be rung; the sweep rings again.", self.queue)


def ring_after_commit(queue: str, *, using: str) -> None:
    """Ring for this queue when the transaction on the database `using` has been committed.

    Rings at once outside a transaction, and once per queue however often it is asked in one.
    """
    connection = connections[using]
    for savepoints, callback, *_ in reversed(connection.run_on_commit):
        is_same = isinstance(callback, RingAfterCommit) and callback.queue == queue
        # A bell asked for inside a savepoint is forgotten with it. It stands for this one too only
        # if no rollback can drop it and keep what was written now.
        if is_same and savepoints <= set(connection.savepoint_ids):
            return
    transaction.on_commit(RingAfterCommit(queue), using=using, robust=True)
