"""Spans: one for each turn with its steps inside, linked across the time that nobody worked."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import AppConfig
from django.db import connection
from django.test.utils import CaptureQueriesContext
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode

from django_stephooks import observers, resume_hook
from django_stephooks.contrib.otel.tracing import MAX_LINKS, tracing
from django_stephooks.engine.worker import advance
from django_stephooks.models import Event, Hook, Run
from django_stephooks.services.runs import retry_run
from tests.factories import EventFactory, RunFactory

from . import workflows
from .conftest import Spans

pytestmark = pytest.mark.django_db(transaction=True)

WORKFLOW = "tests.contrib.workflows"


@pytest.fixture(autouse=True)
def current() -> list[tuple[str, int]]:
    workflows.current.clear()
    return workflows.current


@pytest.fixture
def no_worker(settings: Any) -> None:
    settings.STEPHOOKS = {**settings.STEPHOOKS, "RUNTIME": "tests.engine.conftest.NobodyComes"}


def links(span: Any) -> dict[str, int]:
    """What it is linked to, and why."""
    return {link.attributes["stephooks.link"]: link.context.span_id for link in span.links}


def ids(spans: list[Any]) -> set[int]:
    return {span.context.span_id for span in spans}


def test_steps_are_inside_their_turn_and_steps_inside_steps(spans: Spans) -> None:
    run = workflows.asking.start()
    (turn,) = spans.turns
    (outer,), (inner,), (ask,) = (spans.named(f"step {name}") for name in ("outer", "inner", "ask"))
    assert turn.name == f"turn {WORKFLOW}.asking"
    assert (outer.parent.span_id, ask.parent.span_id) == (turn.context.span_id,) * 2
    assert inner.parent.span_id == outer.context.span_id
    assert turn.attributes == {
        "stephooks.run.id": run.pk,
        "stephooks.run.public_id": str(run.public_id),
        "stephooks.workflow": f"{WORKFLOW}.asking",
        "stephooks.turn": 1,
        "stephooks.queue": "default",
        "stephooks.outcome": "suspended",
    }
    assert ask.attributes["stephooks.call"] == "ask:1"
    assert ask.attributes["stephooks.attempt"] == 1
    assert {span.status.status_code for span in (turn, outer, inner, ask)} == {StatusCode.UNSET}
    assert [span.attributes["stephooks.outcome"] for span in (outer, inner, ask)] == [
        *("completed", "completed", "suspended")
    ]


def test_a_resumed_turn_is_linked_to_the_one_that_suspended(spans: Spans, no_worker: None) -> None:
    run = workflows.asking.start()
    advance("default")
    resume_hook(Hook.objects.get(run=run).token, "yes")
    advance("default")
    first, second = spans.turns
    assert links(first) == {}
    assert links(second) == {"suspended": first.context.span_id}
    assert second.context.trace_id != first.context.trace_id
    assert second.parent is None
    assert second.attributes["stephooks.outcome"] == "completed"


def test_turns_are_linked_to_whoever_started_and_answered(spans: Spans, no_worker: None) -> None:
    tracer = spans.provider.get_tracer("the project")
    with tracer.start_as_current_span("POST /publish") as starting:
        run = workflows.asking.start()
    advance("default")
    with tracer.start_as_current_span("POST /answer") as answering:
        resume_hook(Hook.objects.get(run=run).token, "yes")
    advance("default")
    first, second = spans.turns
    assert links(first) == {"started": starting.get_span_context().span_id}
    assert links(second) == {
        "answered": answering.get_span_context().span_id,
        "suspended": first.context.span_id,
    }


def test_a_retried_run_is_linked_to_the_turn_that_failed_and_whoever_retried(
    spans: Spans, no_worker: None
) -> None:
    workflows.obstacles[:] = [ValueError("a stone"), ValueError("a wall")]
    run = workflows.stumbling.start()
    advance("default")
    advance("default")
    with spans.provider.get_tracer("the project").start_as_current_span("retry") as retrying:
        retry_run(run)
    advance("default")
    *_, failed, last = spans.turns
    assert links(last) == {
        "failed": failed.context.span_id,
        "retried": retrying.get_span_context().span_id,
    }


def test_what_failed_says_its_class_and_nothing_of_its_message(spans: Spans) -> None:
    workflows.obstacles[:] = [ValueError("secret: a stone"), ValueError("secret: a wall")]
    workflows.stumbling.start()
    first, second = spans.named("step stumbles")
    assert [span.attributes["stephooks.attempt"] for span in (first, second)] == [1, 2]
    for span in (first, second):
        assert span.attributes["error.type"] == "ValueError"
        assert span.attributes["stephooks.outcome"] == "failed"
        assert span.status.status_code is StatusCode.ERROR
    retried, failed = spans.turns
    assert retried.attributes["stephooks.outcome"] == "ready"
    assert retried.status.status_code is StatusCode.UNSET
    assert failed.attributes["stephooks.outcome"] == "failed"
    assert failed.status.status_code is StatusCode.ERROR


def test_no_span_holds_what_people_wrote(spans: Spans) -> None:
    run = workflows.asking.start()
    token = Hook.objects.get(run=run).token
    resume_hook(token, {"answer": "secret"})
    workflows.obstacles[:] = [ValueError("secret: a stone"), ValueError("secret: a wall")]
    workflows.stumbling.start()
    for span in spans.exporter.get_finished_spans():
        assert "secret" not in span.to_json()
        assert token not in span.to_json()


def test_the_span_of_a_step_is_current_where_its_code_runs(
    spans: Spans, current: list[tuple[str, int]]
) -> None:
    workflows.asking.start()
    (turn,) = spans.turns
    assert dict(current) == {
        "workflow": turn.context.span_id,
        **{name: spans.named(f"step {name}")[0].context.span_id for name in ("outer", "inner", "ask")},
    }


def test_async_steps_side_by_side_have_each_their_own(
    spans: Spans, current: list[tuple[str, int]], caplog: pytest.LogCaptureFixture
) -> None:
    run = workflows.side_by_side.start()
    (turn,) = spans.turns
    (plain,) = spans.named("step plain")
    asks = spans.named("step aask")
    assert {span.parent.span_id for span in (plain, *asks)} == {turn.context.span_id}
    seen = dict(current)
    assert seen["plain"] == plain.context.span_id
    assert seen["workflow"] == turn.context.span_id
    assert seen["first begins"] == seen["first goes on"]
    assert seen["second begins"] == seen["second goes on"]
    assert {seen["first begins"], seen["second begins"]} == ids(asks)
    assert len(ids(asks)) == 2
    for hook in Hook.objects.filter(run=run):
        resume_hook(hook.token, "yes")
    assert spans.turns[-1].attributes["stephooks.outcome"] == "completed"
    # "Failed to detach context": a span that was entered here and left elsewhere.
    assert "opentelemetry" not in {record.name.partition(".")[0] for record in caplog.records}


def test_of_many_answers_at_once_only_so_many_are_linked(spans: Spans, no_worker: None) -> None:
    run = RunFactory()
    for number in range(1, MAX_LINKS + 9):
        carried = {"traceparent": f"00-{number:032x}-{number:016x}-01"}
        EventFactory(run=run, type=Event.Type.HOOK_RECEIVED, data={"trace": carried})
    advance("default")
    (turn,) = spans.turns
    assert [link.context.span_id for link in turn.links] == list(range(MAX_LINKS + 8, 8, -1))


@pytest.mark.parametrize(
    "data",
    [{}, {"trace": {"traceparent": "junk"}}, {"trace": "junk"}, {"trace": None}, None, ["trace"]],
    ids=repr,
)
def test_a_context_that_can_not_be_read_is_no_link_and_no_trouble(
    data: Any, spans: Spans, no_worker: None, caplog: pytest.LogCaptureFixture
) -> None:
    EventFactory(run=RunFactory(workflow=workflows.stumbling.name, arguments={}), data=data)
    advance("default")
    (turn,) = spans.turns
    assert turn.attributes["stephooks.outcome"] == "completed"
    assert not turn.links
    assert "observer" not in caplog.text


def test_a_traced_turn_costs_one_query_more_and_an_unsampled_one_none(spans: Spans, no_worker: None) -> None:
    def queries() -> int:
        workflows.stumbling.start()
        with CaptureQueriesContext(connection) as captured:
            advance("default")
        return len(captured)

    traced = queries()
    spans.provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    unsampled = queries()
    observers.remove(tracing)
    assert (traced, unsampled) == (queries() + 1, queries())


def test_the_app_is_the_switch() -> None:
    from django_stephooks.contrib import otel

    config = AppConfig.create("django_stephooks.contrib.otel")
    assert config.module is otel
    config.ready()
    config.ready()
    try:
        assert [known for known in observers._observers if known is tracing] == [tracing]
    finally:
        observers.remove(tracing)
    run = workflows.asking.start()
    assert "trace" not in run.events.get(type=Event.Type.RUN_STARTED).data
    assert Run.objects.get().status == Run.Status.SUSPENDED
