"""Structured log lines: one for each event of the journal, on the logger `django_stephooks.events`.

Connected when Django starts, if that logger is enabled then. A line says what happened to which run
and call, and nothing of what people wrote or who they are: no arguments, results, payloads,
checkpoints, tokens, names or addresses.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django_stephooks import signals
from django_stephooks.models import Event, Run

logger = logging.getLogger("django_stephooks.events")

T = Event.Type
# What is done inside a turn; the rest is INFO.
DEBUG = {T.STEP_STARTED, T.STEP_COMPLETED, T.ONCE_COMPLETED, T.TIMER_STARTED, T.RUN_RESUMED}
# Which of an event's data may be told. Everything else is not even looked at.
TOLD: dict[str, tuple[str, ...]] = {
    T.RUN_SUSPENDED: ("seconds", "due_at"),
    T.RUN_RECOVERED: ("turn",),
    T.RUN_COMPLETED: ("seconds",),
    T.RUN_FAILED: ("seconds", "type"),
    T.STEP_FAILED: ("attempt", "error"),
    T.STEP_RETRYING: ("attempt", "due_at", "error"),
    T.TIMER_STARTED: ("due_at",),
    T.HOOK_CREATED: ("expires_at",),
    T.HOOK_RECEIVED: ("channel",),
    T.LINKS_REVOKED: ("sent_again",),
}


def connect() -> None:
    signals.events_recorded.connect(log, dispatch_uid=__name__)


def disconnect() -> None:
    signals.events_recorded.disconnect(dispatch_uid=__name__)


def log(events: list[Event], **kwargs: Any) -> None:
    """Write a line for each of these events, which were written in one transaction."""
    told = [(event, level) for event in events if logger.isEnabledFor(level := _level(event))]
    runs = _runs(event for event, _ in told)
    for event, level in told:
        fields = _fields(event, runs.get(event.run_id))
        line = " ".join(f"{name}={_quoted(value)}" for name, value in fields.items() if name != "event")
        logger.log(level, "%s %s", event.type, line, extra=fields)


def _level(event: Event) -> int:
    return logging.DEBUG if event.type in DEBUG else logging.INFO


def _runs(events: Iterable[Event]) -> dict[int, Run]:
    """By key. A turn has its run at hand; for what the sweep did to many it is one query."""
    events = list(events)
    known = {event.run_id: event.run for event in events if Event.run.is_cached(event)}
    if missing := {event.run_id for event in events} - known.keys():
        using = events[0]._state.db
        known.update(Run.objects.using(using).only("workflow", "public_id").in_bulk(missing))
    return known


def _fields(event: Event, run: Run | None) -> dict[str, Any]:
    fields: dict[str, Any] = {"event": str(event.type), "run_id": event.run_id}
    if run is not None:
        fields["run_public_id"] = str(run.public_id)
        fields["workflow"] = run.workflow
        if "turn" not in run.get_deferred_fields():
            fields["turn"] = run.turn
    if event.call:
        fields["call"] = event.call
    for key in TOLD.get(event.type, ()):
        value = event.data.get(key)
        if key in ("type", "error"):
            # Of an error its class alone: its message may quote anything.
            key, value = "error_type", value["type"] if isinstance(value, dict) else value
        if value is not None:
            fields[key] = value.isoformat() if isinstance(value, datetime) else value
    return fields


def _quoted(value: Any) -> str:
    """As it is if that is one plain word; else quoted, so that no value makes a line of its own."""
    text = str(value)
    if text and text.isprintable() and not set(text) & set(' "='):
        return text
    return json.dumps(text)
