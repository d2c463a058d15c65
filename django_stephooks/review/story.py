"""A run's journal as people read it: what happened, who did it, when, and what was said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_stephooks.exceptions import SerializationError
from django_stephooks.models import Event, Hook, Run
from django_stephooks.services.rules import approval
from django_stephooks.types import SYSTEM_DEADLINE

from .answers import comment_of
from .values import printable_text

MAX_LINES = 500

T = Event.Type

# Only these have data that is told; the others may hold results of any size, which are not loaded.
TELLING = (
    T.RUN_STARTED,
    T.RUN_FAILED,
    T.RUN_CANCELLED,
    T.RUN_RETRIED,
    T.STEP_FAILED,
    T.STEP_RETRYING,
    T.STEP_WARNED,
    T.TIMER_STARTED,
    T.HOOK_RECEIVED,
    T.HOOK_CANCELLED,
    T.LINKS_REVOKED,
)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One thing that happened. `quote` is what a person said, `traceback` is for developers."""

    words: str
    at: datetime
    call: str = ""
    actor: str = ""
    quote: str = ""
    note: str = ""
    due_at: datetime | None = None
    traceback: str = ""
    is_present: bool = False


def tell(run: Run, hooks: Mapping[str, Hook], *, with_tracebacks: bool) -> tuple[list[Line], bool]:
    """The last MAX_LINES things that happened, in order, and whether there are earlier ones.

    `hooks` are the run's hooks by call. Tracebacks show the project's code: they are for those who look
    after runs, not for everybody who is asked something.
    """
    newest = run.events.order_by("-pk").defer("data")[: MAX_LINES + 1]
    events = list(newest)[::-1]
    is_cut = len(events) > MAX_LINES
    events = events[-MAX_LINES:]
    telling = [event.pk for event in events if event.type in TELLING]
    data = {event.pk: _data(event) for event in run.events.filter(pk__in=telling)}
    # New links change nothing about where the run stands.
    stands = [event.pk for event in events if event.type != T.LINKS_REVOKED]
    present = stands[-1] if stands and not run.is_finished else None
    lines = [
        _line(event, data.get(event.pk, {}), hooks.get(event.call), is_present=event.pk == present)
        for event in events
    ]
    if not with_tracebacks:
        lines = [replace(line, traceback="") for line in lines]
    return lines, is_cut


def _data(event: Event) -> dict[str, Any]:
    try:
        return event.data if isinstance(event.data, dict) else {}
    except SerializationError:
        return {"note": _("What was recorded of this can not be read any more.")}


def _line(event: Event, data: dict[str, Any], hook: Hook | None, *, is_present: bool) -> Line:
    error = data["error"] if isinstance(data.get("error"), dict) else {}
    actor = data.get("by") or (SYSTEM_DEADLINE.label if event.type == T.HOOK_EXPIRED else "")
    quote = data.get("reason") or ""
    if event.type == T.HOOK_CANCELLED:
        quote = ""  # nobody said that
    if event.type == T.HOOK_RECEIVED and hook is not None:
        quote = comment_of(hook)
    due_at = data.get("due_at")
    return Line(
        words=_words(event, hook),
        at=event.created_at,
        call=printable_text(event.call),
        actor=printable_text(actor),
        quote=printable_text(quote),
        note=printable_text(_note(data, error)),
        due_at=due_at if isinstance(due_at, datetime) else None,
        traceback=printable_text(error.get("traceback") or ""),
        is_present=is_present,
    )


def _note(data: dict[str, Any], error: dict[str, Any]) -> str:
    if error or "message" in data:
        return describe(error or data)
    if channel := data.get("channel"):
        return _("through: %(channel)s") % {"channel": channel}
    if first := data.get("first"):
        return _("answered first: %(call)s") % {"call": first}
    again = data.get("sent_again")
    if isinstance(again, int) and again:
        return ngettext("%(count)d new link sent", "%(count)d new links sent", again) % {"count": again}
    return str(data.get("warning") or data.get("note") or "")


def describe(error: Mapping[str, Any]) -> str:
    """A recorded exception as one line: its class, without the module, and its message."""
    name = str(error.get("type") or "").rpartition(":")[2].rpartition(".")[2]
    return f"{name}: {error.get('message') or ''}".strip(": ")


def _words(event: Event, hook: Hook | None) -> str:
    if event.type == T.HOOK_RECEIVED and hook is not None:
        answers = {True: _("Question approved"), False: _("Question rejected"), None: _("Question answered")}
        return answers[approval(hook)]
    words = {
        T.RUN_STARTED: _("Run started"),
        T.RUN_SUSPENDED: _("Waiting"),
        T.RUN_RESUMED: _("Going on"),
        T.RUN_RECOVERED: _("Worker lost; another one takes over"),
        T.RUN_COMPLETED: _("Run completed"),
        T.RUN_FAILED: _("Run failed"),
        T.RUN_CANCELLED: _("Run cancelled"),
        T.RUN_RETRIED: _("Run to be tried again"),
        T.STEP_STARTED: _("Step started"),
        T.STEP_COMPLETED: _("Step completed"),
        T.STEP_FAILED: _("Step failed"),
        T.STEP_RETRYING: _("Step failed and will be tried again"),
        T.STEP_WARNED: _("Warning"),
        T.ONCE_COMPLETED: _("Done once"),
        T.TIMER_STARTED: _("Timer started"),
        T.HOOK_CREATED: _("Question asked"),
        T.HOOK_EXPIRED: _("Deadline passed without an answer"),
        T.HOOK_CANCELLED: _("Question withdrawn"),
        T.HOOK_REOPENED: _("Question asked again"),
        T.LINKS_REVOKED: _("Links revoked"),
    }
    known: Mapping[str, str] = {str(type): text for type, text in words.items()}
    return known.get(event.type, event.type)
