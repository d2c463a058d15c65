"""What is said about an answer: why it can not be given any more, and what was said with it."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.translation import gettext as _

from django_stephooks.exceptions import (
    HookAlreadyReceivedError,
    HookCancelledError,
    HookExpiredError,
    SerializationError,
    StepHooksError,
)
from django_stephooks.models import Hook
from django_stephooks.services.rules import approval, at, has_lost_race

from .values import printable_text

MAX_QUOTE = 500


def kindly(error: type[StepHooksError] | None, reason: str, hook: Hook) -> str:
    """Why a hook can not be answered, said to the person who wanted to."""
    if error is HookAlreadyReceivedError:
        sentence = {
            True: _("Already approved by %(who)s %(when)s"),
            False: _("Already rejected by %(who)s %(when)s"),
            None: _("Already answered by %(who)s %(when)s"),
        }[approval(hook)]
        who = hook.answered_by_label or _("somebody")
        comment = comment_of(hook)
        quote = f": '{comment[:MAX_QUOTE]}'" if comment else "."
        return printable_text(sentence % {"who": who, "when": how_long_ago(hook.settled_at)} + quote)
    if error is HookExpiredError:
        return _("The deadline passed at %(when)s and nobody had answered: it is too late now.") % {
            "when": at(hook.expires_at)
        }
    if error is HookCancelledError and has_lost_race(hook):
        return _("Somebody else was asked too, and answered first, %(when)s: nothing is left to do here.") % {
            "when": how_long_ago(hook.settled_at)
        }
    if error is HookCancelledError:
        return _("This is no longer asked: the run is %(status)s.") % {
            "status": hook.run.get_status_display()
        }
    return printable_text(reason)


def how_long_ago(moment: datetime | None) -> str:
    """As "20 s ago"; after an hour, when it was."""
    if moment is not None:
        passed = timezone.now() - moment
        if passed < timedelta(minutes=1):
            return _("%(count)d s ago") % {"count": max(passed.total_seconds(), 0)}
        if passed < timedelta(hours=1):
            return _("%(count)d min ago") % {"count": passed.total_seconds() // 60}
    return _("at %(when)s") % {"when": at(moment)}


def comment_of(hook: Hook) -> str:
    """The comment in a hook's answer, if there is one."""
    try:
        payload = hook.payload
    except SerializationError:
        return ""
    comment = payload.get("comment") if isinstance(payload, dict) else None
    return printable_text(comment).strip() if isinstance(comment, str) else ""
