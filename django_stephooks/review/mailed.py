"""To whom a hook's links were mailed, and what became of each mail."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from django_stephooks.exceptions import SerializationError
from django_stephooks.models import Event, Hook, Run
from django_stephooks.services.links import mail_runs

from . import marks
from .story import describe
from .values import printable_text

MAX_MAILS = 500


@dataclass(frozen=True, kw_only=True)
class Mailed:
    """The newest mail to one address: a mark that says what became of it, and when; `note` says more."""

    address: str
    mark: SafeString
    at: datetime | None = None
    due_at: datetime | None = None
    note: str = ""


def mailed(hook: Hook) -> list[Mailed]:
    """One for each address, in their order, by the newest MAX_MAILS mails of the hook."""
    newest: dict[str, tuple[str, Run, Any]] = {}
    for run in mail_runs(hook).order_by("-pk")[:MAX_MAILS]:
        try:
            arguments = dict(run.arguments)
            address = printable_text(arguments["recipient"])
        except (SerializationError, TypeError, ValueError, KeyError):
            address, arguments = _("an address that can not be read"), {}
        newest.setdefault(address.casefold(), (address, run, arguments))
    failures = _failures([run for _address, run, _arguments in newest.values() if not run.is_finished])
    return [
        _mail(address, run, failures.get(run.pk, ""), is_void=arguments.get("version") != hook.token_version)
        for _folded, (address, run, arguments) in sorted(newest.items())
    ]


def _failures(runs: list[Run]) -> dict[int, str]:
    """Why the last attempt failed of those that are tried again."""
    if not runs:
        return {}
    events = Event.objects.filter(run__in=runs, type=Event.Type.STEP_RETRYING).order_by("pk")
    return {event.run_id: _error(event, "data") for event in events}


def _error(row: Any, column: str) -> str:
    try:
        error = getattr(row, column)
        if column == "data":
            error = error["error"]
        return printable_text(describe(error))
    except (SerializationError, TypeError, KeyError, AttributeError):
        return _("an error that can not be read")


def _mail(address: str, run: Run, failure: str, *, is_void: bool) -> Mailed:
    note, at, due_at = "", run.finished_at, None
    if run.status == Run.Status.COMPLETED:
        is_sent, why = _outcome(run)
        mark = marks.status("completed", _("sent")) if is_sent else marks.status("cancelled", _("not sent"))
        note = _("this link was revoked") if is_sent and is_void else why
    elif run.status == Run.Status.FAILED:
        mark, note = marks.status("failed", _("failed")), _error(run, "error")
    elif run.status == Run.Status.CANCELLED:
        mark = marks.status("cancelled", _("not sent"))
    elif failure:
        mark, note, due_at = marks.status("overdue", _("failing")), failure, run.due_at
    else:
        mark, at = marks.status("pending", _("being sent")), run.created_at
    return Mailed(address=address, mark=mark, at=at, due_at=due_at, note=note)


def _outcome(run: Run) -> tuple[bool, str]:
    try:
        return bool(run.result["sent"]), printable_text(run.result.get("why") or "")
    except (SerializationError, TypeError, KeyError, AttributeError):
        return False, _("what was recorded can not be read")
