"""The package's own runs; their names begin with "stephooks.", and lists hide them by default."""

from __future__ import annotations

import contextlib
from typing import Any

from django.core import mail

from .decorators import step
from .exceptions import FatalError, RetryableError
from .primitives import delete_step_checkpoint, load_step_checkpoint, save_step_checkpoint
from .services.links import SEND

# About six hours: long enough for a mail server that is being looked after.
DELAYS = [5, 30, 60, 300, 900, 1800, 3600, 7200, 7200]


@step(name=SEND, max_retries=len(DELAYS), retry_delay=DELAYS, timeout="5m")
def send_review_mail(hook_id: int, recipient: str, kind: str, user_id: str, version: int) -> dict[str, Any]:
    """Mail one recipient their link, unless the hook is answered by now; says which.

    At most once: a checkpoint stands while the message is handed over, and a turn that finds it
    knows that its predecessor was killed in between. The mail may be out, so it is not sent again
    unless somebody retries the run.
    """
    from .mail import review_mail

    if load_step_checkpoint() is not None:
        delete_step_checkpoint()
        raise FatalError(
            "The worker was killed while it handed this mail over, which may have been sent. "
            "Retry the run, or send new links, if it did not arrive."
        )
    message = review_mail(hook_id, recipient, kind=kind, user_id=user_id, version=version)
    if isinstance(message, str):
        return {"sent": False, "why": message}
    connection = _mailer()
    # What hangs when a server is ill is the greeting. A kill there has sent nothing.
    connection.open()
    try:
        save_step_checkpoint("handing over")
        try:
            count = connection.send_messages([message])
        except Exception:
            delete_step_checkpoint()
            raise
    finally:
        # The message is out by now; that the server hangs up rudely changes nothing.
        with contextlib.suppress(Exception):
            connection.close()
    if count == 0:
        delete_step_checkpoint()
        raise RetryableError("The mail backend sent nothing.")
    return {"sent": True, "why": ""}


def _mailer() -> Any:
    if mailers := getattr(mail, "mailers", None):
        return mailers.default
    return mail.get_connection()  # before Django 6.1
