"""What a test sees of a run, and what the code of its steps did."""

from __future__ import annotations

from typing import Any

from django_stephooks import resume_hook
from django_stephooks.models import Event, Hook, Run
from django_stephooks.services.sweep import sweep

# What the code of the workflows did, in order; emptied before each test.
did: list[Any] = []


def again(run: Run) -> Run:
    """The run as it is now."""
    run.refresh_from_db()
    return run


def events_of(run: Run, *types: str) -> list[str]:
    """Types of its events, in order; with `types`, only "type call" of those."""
    events = run.events.order_by("pk")
    if types:
        return [str(event) for event in events.filter(type__in=types)]
    return list(events.values_list("type", flat=True))


def calls_of(run: Run, *types: str) -> list[str]:
    return list(run.events.filter(type__in=types).order_by("pk").values_list("call", flat=True))


def data_of(run: Run, type: Event.Type) -> list[Any]:
    return list(run.events.filter(type=type).order_by("pk").values_list("data", flat=True))


def hook_of(run: Run, call: str = "") -> Hook:
    """The one question that waits; with `call`, that one, whatever became of it."""
    hooks = Hook.objects.filter(run=run)
    return hooks.get(call=call) if call else hooks.get(status=Hook.Status.PENDING)


def answer(run: Run, payload: Any = "yes", call: str = "") -> Run:
    resume_hook(hook_of(run, call).token, payload)
    return again(run)


def later(clock: Any, duration: Any, run: Run) -> Run:
    """Time passes, and a sweep comes by."""
    clock.advance(duration)
    sweep()
    return again(run)
