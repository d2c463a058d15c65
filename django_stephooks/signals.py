"""Signals that tell other code what happened, always sent after the transaction committed.

Each is sent with `sender` = the model class and the keyword arguments named beside it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.dispatch import Signal

logger = logging.getLogger("django_stephooks")

hook_created = Signal()  # hook
hook_received = Signal()  # hook
hook_expired = Signal()  # hook
hook_cancelled = Signal()  # hook
run_finished = Signal()  # run
events_recorded = Signal()  # events


def send_after_commit(signal: Signal, sender: type, *, using: str, **named: Any) -> None:
    """Send once the transaction is committed; a receiver that raises is logged and stops nobody.

    Receivers get the row as it was committed: most changes are UPDATEs that the instance at hand has
    not seen.
    """
    if not signal.has_listeners(sender):
        return

    def send() -> None:
        for instance in named.values():
            instance.refresh_from_db(using=using)
        _send(signal, sender, **named)

    transaction.on_commit(send, using=using, robust=True)


def tell_recorded(events: Sequence[Any], *, using: str) -> None:
    """Send `events_recorded` for rows of the journal that are written in this transaction.

    It costs no query: a row of the journal never changes.
    """
    if not events or not events_recorded.has_listeners(type(events[0])):
        return
    told = list(events)

    def send() -> None:
        _send(events_recorded, type(told[0]), events=told)

    transaction.on_commit(send, using=using, robust=True)


def _send(signal: Signal, sender: type, **named: Any) -> None:
    for receiver, answer in signal.send_robust(sender, **named):
        if isinstance(answer, Exception):
            logger.error("Signal receiver %r failed.", receiver, exc_info=answer)
