"""Spans of turns and steps, and the trace context that the journal carries from turn to turn.

Attributes and names say what the code is called and how it ended; nothing in them was written by a
person, and of an error only its class is told.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from django_stephooks.engine.frames import SuspensionSignal
from django_stephooks.models import Event, Run
from django_stephooks.models.transactions import write_alias
from django_stephooks.observers import Observer, StepWork, TurnWork

# W3C trace context alone: a project's propagators may carry baggage, which may say anything.
propagator = TraceContextTextMapPropagator()
KEY = "trace"

T = Event.Type
# The events that carry a context, and what a link to it says.
LINKED: dict[str, str] = {
    T.RUN_STARTED: "started",
    T.HOOK_RECEIVED: "answered",
    T.RUN_SUSPENDED: "suspended",
    T.RUN_FAILED: "failed",
    T.RUN_RETRIED: "retried",
}
# Of more answers than these at once the first ones are not linked.
MAX_LINKS = 32


class Tracing(Observer):
    @contextlib.contextmanager
    def around_turn(self, turn: TurnWork) -> Iterator[None]:
        run: Run = turn.run
        attributes = {**_about(run), "stephooks.queue": run.queue}
        with _span(f"turn {run.workflow}", SpanKind.CONSUMER, attributes) as span:
            if span.is_recording():
                for context, why in links_of(run):
                    span.add_link(context, {"stephooks.link": why})
            try:
                yield
            finally:
                span.set_attribute("stephooks.outcome", turn.outcome or "interrupted")
                if turn.outcome in ("failed", ""):
                    span.set_status(Status(StatusCode.ERROR))

    @contextlib.contextmanager
    def around_step(self, step: StepWork) -> Iterator[None]:
        attributes = {
            **_about(step.run),
            "stephooks.call": step.call,
            "stephooks.attempt": step.attempt,
        }
        with _span(f"step {_name(step.call)}", SpanKind.INTERNAL, attributes) as span:
            outcome = "completed"
            try:
                yield
            except SuspensionSignal:
                outcome = "suspended"
                raise
            except Exception as error:
                outcome = "failed"
                span.set_attribute("error.type", type(error).__qualname__)
                span.set_status(Status(StatusCode.ERROR, type(error).__qualname__))
                raise
            except BaseException:
                outcome = "interrupted"
                raise
            finally:
                span.set_attribute("stephooks.outcome", outcome)

    def carry(self) -> dict[str, Any]:
        context: dict[str, str] = {}
        propagator.inject(context)
        return {KEY: context} if context else {}


def links_of(run: Run) -> Iterator[tuple[SpanContext, str]]:
    """The turn before, and what happened since; in a first turn, whoever started the run. One query."""
    events = Event.objects.using(write_alias()).filter(run=run, type__in=LINKED)
    for type, data in events.order_by("-pk").values_list("type", "data")[:MAX_LINKS]:
        carried = data.get(KEY) if isinstance(data, dict) else None
        if isinstance(carried, dict):
            context = trace.get_current_span(propagator.extract(carried)).get_span_context()
            if context.is_valid:
                yield context, LINKED[type]
        if type in (T.RUN_SUSPENDED, T.RUN_FAILED):
            return


def _span(name: str, kind: SpanKind, attributes: dict[str, Any]) -> contextlib.AbstractContextManager[Span]:
    return trace.get_tracer("django_stephooks").start_as_current_span(
        name, kind=kind, attributes=attributes, record_exception=False, set_status_on_exception=False
    )


def _about(run: Run) -> dict[str, Any]:
    return {
        "stephooks.run.id": run.pk,
        "stephooks.run.public_id": str(run.public_id),
        "stephooks.workflow": run.workflow,
        "stephooks.turn": run.turn,
    }


def _name(call: str) -> str:
    """A step's name without its place, number and key: there are few of these."""
    return re.sub(r"(:\d+|\[.*\])$", "", call.rpartition("/")[2], flags=re.S)


tracing = Tracing()
