"""The bell: how services and the engine say "there is work in this queue".

The ready rows in the database *are* the queue. A runtime only wakes somebody who looks into it, so
a bell may be lost, or ring once too often, and nothing is wrong: the sweep rings again, and a turn
that finds nothing to claim ends quietly.
"""

from __future__ import annotations

import difflib
import itertools
import logging
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.utils.module_loading import import_string

from django_stephooks.conf import app_settings

if TYPE_CHECKING:
    from django_stephooks.models import Run

    from .streams import Stream

logger = logging.getLogger("django_stephooks")

# By name, because the engine rings bells and so may not be imported by those who answer them.
WORK = "django_stephooks.engine.worker.work"
HAND_BACK = "django_stephooks.engine.lease.hand_back"

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

    def diagnose(self, queue: str) -> Iterator[tuple[bool, str, str]]:
        """For the doctor: what is (not) as it should be for this queue: ok or not, about what, a sentence."""
        yield True, f"queue {queue}", f"{type(self).__name__}, which needs no worker"

    def stream(self, run: Run) -> Stream:
        """Where what this run emits is kept for those who watch it."""
        # Imported late: whoever names a runtime in the settings may do so before models may be imported.
        from .streams import DatabaseStream

        return DatabaseStream(run)

    def picked_up(self, queue: str) -> None:
        """Somebody is about to look for ready runs: what is rung from now on is a new bell."""

    def may_go_on(self, queue: str) -> bool:
        """Asked after each turn: may this process take another run, or is it told to stop?

        If not, the bell is rung for what is still ready, and `WORK` returns.
        """
        return True


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


_moments = itertools.count(1)
# When each connection's bells were last rung, by queue.
_rung: WeakKeyDictionary[Any, dict[str, int]] = WeakKeyDictionary()


class RingAfterCommit:
    """An on-commit callback that never raises: what was committed stays right without its bell.

    Of several in one transaction the first rings for all: whatever comes to be called was committed
    together with it. They are not told apart when they are asked for, because a savepoint that is
    rolled back takes its bells along, and a TestCase keeps those of long ago.
    """

    def __init__(self, queue: str, *, using: str = DEFAULT_DB_ALIAS) -> None:
        self.queue = queue
        self.asked = next(_moments)
        self.rung = _rung.setdefault(connections[using], {})
        # Django 5.2 logs the name of a failed robust callback, and an instance has none.
        self.__qualname__ = type(self).__name__

    def __call__(self) -> None:
        if self.rung.get(self.queue, 0) > self.asked:
            return
        self.rung[self.queue] = next(_moments)
        try:
            get_runtime().ring(self.queue)
        except Exception:
            # Whatever it is, the caller's work is committed.
            logger.exception("The bell for queue %r could not be rung; the sweep rings again.", self.queue)


def ring_after_commit(queue: str, *, using: str) -> None:
    """Ring for this queue when the transaction on the database `using` has been committed.

    Rings at once outside a transaction, and once per queue however often it is asked in one.
    """
    transaction.on_commit(RingAfterCommit(queue, using=using), using=using, robust=True)
