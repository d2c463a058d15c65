"""Signals that tell other code what happened, always sent after the transaction committed.

Each is sent with `sender` = the model class and the keyword argument named beside it.
"""

from __future__ import annotations

import logging
from typing import Any

from django.db import transaction
from django.dispatch import Signal

logger = logging.getLogger("django_stephooks")

hook_created = Signal()  # hook
hook_received = Signal()  # hook
hook_expired = Signal()  # hook
hook_cancelled = Signal()  # hook
run_finished = Signal()  # run


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
        for receiver, answer in signal.send_robust(sender, **named):
            if isinstance(answer, Exception):
                logger.error("Signal receiver %r failed.", receiver, exc_info=answer)

    transaction.on_commit(send, using=using, robust=True)
