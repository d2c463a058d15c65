"""Runs over the API: read, cancelled, retried, started."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_stephooks.exceptions import RunStateError
from django_stephooks.models import Event, Hook, Run
from django_stephooks.models.fields import Encoded
from tests.factories import ArticleFactory, EventFactory, HookFactory, RunFactory, UserFactory

from .conftest import Client, client_of, problem, slug

pytestmark = pytest.mark.django_db

UNREADABLE = Encoded('{"$t":"gone"}')


# --- reading ---


def test_the_list_shows_runs_without_what_may_be_long(operator: Client):
    dana = UserFactory(username="dana")
    run = RunFactory(started_by=dana)

    (shown,) = operator.get("runs/").json()["results"]

    assert shown == {
        "id": str(run.public_id),
        "workflow": "tests.app.workflows.publish",
        "status": "pending",
        "subject": None,
        "started_by": "dana",
        "created_at": run.created_at.isoformat().replace("+00:00", "Z"),
        "finished_at": None,
    }


@pytest.mark.parametrize("address", ["runs/", "runs/{id}/", "runs/{id}/events/"])
def test_runs_are_shown_to_nobody_without_the_permission(address: str):
    address = address.format(id=RunFactory().public_id)

    assert slug(Client().get(address)) == "not-authenticated"
    response = client_of("view_hook", "review_hook", is_staff=True).get(address)
    expected = (403, "not-allowed") if address == "runs/" else (404, "not-found")
    assert (response.status_code, slug(response)) == expected


def test_the_list_takes_the_same_queries_for_1_and_for_50(operator: Client):
    def queries() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            assert operator.get("runs/").status_code == 200
        return [query["sql"] for query in captured]

    RunFactory(subject=ArticleFactory(), started_by=UserFactory())
    queries()
    few = queries()
    for _ in range(49):
        RunFactory(subject=ArticleFactory(), started_by=UserFactory())
    many = queries()

    assert len(few) == len(many)
    columns = [sql.partition("FROM")[0] for sql in many]
    for long in ("arguments", "result", "error"):
        assert not any(f".{connection.ops.quote_name(long)}" in selected for selected in columns), long


def test_filters_by_status_and_workflow_and_leaves_the_package_s_own_out(operator: Client):
    RunFactory(failed=True, workflow="news.publish")
    RunFactory(workflow="stephooks.send_review_mail")
    RunFactory(workflow="other")

    def workflows(query: str) -> list[str]:
        return [run["workflow"] for run in operator.get(f"runs/{query}").json()["results"]]

    assert workflows("") == ["other", "news.publish"]
    assert workflows("?status=failed") == ["news.publish"]
    assert workflows("?workflow=stephooks.send_review_mail") == ["stephooks.send_review_mail"]
    assert slug(operator.get("runs/?status=x")) == "invalid-request"


def test_a_run_shows_what_it_was_given_and_what_came_of_it(operator: Client):
    subject = ArticleFactory()
    run = RunFactory(
        completed=True,
        subject=subject,
        arguments={"due": timedelta(hours=1)},
        result={"n": float("inf"), "b": b"x"},
    )

    shown = operator.get(f"runs/{run.public_id}/").json()

    assert shown["arguments"] == {"due": "P0DT01H00M00S"}
    assert shown["result"] == {"n": "inf", "b": "eA=="}
    assert shown["subject"] == {"type": "testapp.article", "id": str(subject.pk)}
    assert (shown["queue"], shown["error"], shown["actions"], shown["unreadable"]) == (
        "default",
        None,
        [],
        [],
    )


def test_a_failed_run_shows_its_error_without_the_traceback(operator: Client):
    run = RunFactory(failed=True)

    shown = operator.get(f"runs/{run.public_id}/").json()

    assert shown["error"] == {"type": "builtins:ValueError", "message": "It went wrong."}
    assert shown["actions"] == ["cancel", "retry"]
    assert client_of("view_run").get(f"runs/{run.public_id}/").json()["actions"] == []


def test_a_run_that_can_not_be_read_breaks_neither_list_nor_page(operator: Client):
    run = RunFactory(completed=True)
    Run.objects.update(arguments=UNREADABLE, result=UNREADABLE)

    assert len(operator.get("runs/").json()["results"]) == 1
    shown = operator.get(f"runs/{run.public_id}/").json()
    assert (shown["arguments"], shown["result"]) == (None, None)
    assert shown["unreadable"] == ["arguments", "result"]


# --- the journal ---


def test_the_journal_is_shown_in_order_without_results_and_tracebacks(operator: Client):
    run = RunFactory()
    when = datetime(2026, 11, 30, tzinfo=UTC)
    failed = {"type": "ValueError", "message": "No", "args": ("secret",), "traceback": "secret"}
    for type, data in [
        (Event.Type.STEP_RETRYING, {"attempt": 1, "due_at": when, "error": failed}),
        (Event.Type.STEP_COMPLETED, {"result": "x" * 10_000}),
        (Event.Type.RUN_FAILED, failed),
    ]:
        EventFactory(run=run, type=type, call="draft:1", data=data)
    EventFactory(run=RunFactory())

    shown = operator.get(f"runs/{run.public_id}/events/").json()["results"]

    assert [event["type"] for event in shown] == [
        "run_started",
        "step_retrying",
        "step_completed",
        "run_failed",
    ]
    assert [event["data"] for event in shown[1:]] == [
        {"attempt": 1, "due_at": when.isoformat(), "error": {"type": "ValueError", "message": "No"}},
        None,
        {"type": "ValueError", "message": "No"},
    ]
    assert shown[1]["call"] == "draft:1"


def test_the_journal_tells_who_answered_through_which_door(operator: Client, reviewer: Client):
    hook = HookFactory(context={"n": 1})
    digest = reviewer.get(f"hooks/{hook.public_id}/").json()["digest"]
    reviewer.post(f"hooks/{hook.public_id}/approve/", {"seen": digest}, headers={"Idempotency-Key": "k"})

    shown = operator.get(f"runs/{hook.run.public_id}/events/").json()["results"][-1]

    assert shown["type"] == "hook_received"
    data = shown["data"]
    assert (data["by"], data["channel"], data["seen"]) == (reviewer.user.username, "api", digest)


def test_the_journal_has_pages_and_survives_a_row_that_can_not_be_read(operator: Client):
    run = RunFactory()
    for n in range(4):
        EventFactory(run=run, type=Event.Type.STEP_WARNED, data={"n": n})
    Event.objects.filter(type=Event.Type.STEP_WARNED).filter(pk=run.events.last().pk).update(data=UNREADABLE)

    first = operator.get(f"runs/{run.public_id}/events/?page_size=3").json()
    second = operator.get(first["next"]).json()

    data = [event["data"] for page in (first, second) for event in page["results"]]
    assert data == [{}, {"n": 0}, {"n": 1}, {"n": 2}, None]
    assert second["next"] is None


@pytest.mark.parametrize("cursor", ["x", "-1", "9" * 30])
def test_a_place_in_the_journal_that_is_none_is_refused(operator: Client, cursor: str):
    response = operator.get(f"runs/{RunFactory().public_id}/events/?cursor={cursor}")

    assert (response.status_code, slug(response)) == (400, "invalid-request")


# --- cancel and retry ---


def test_an_operator_cancels_a_run_with_a_reason(operator: Client):
    hook = HookFactory()

    response = operator.post(f"runs/{hook.run.public_id}/cancel/", {"reason": "Spiked."})

    assert (response.status_code, response.json()["status"]) == (200, "cancelled")
    event = Event.objects.get(type=Event.Type.RUN_CANCELLED)
    assert event.data == {"by": operator.user.username, "by_id": operator.user.pk, "reason": "Spiked."}
    hook.refresh_from_db()
    assert hook.status == Hook.Status.CANCELLED


def test_an_operator_retries_a_failed_run(operator: Client):
    run = RunFactory(failed=True)

    response = operator.post(f"runs/{run.public_id}/retry/")

    assert response.json() == {"id": str(run.public_id), "workflow": run.workflow, "status": "pending"}


@pytest.mark.parametrize(
    ("action", "state"), [("cancel", "completed"), ("retry", "completed"), ("retry", "suspended")]
)
def test_a_status_that_does_not_allow_it_is_a_conflict(operator: Client, action: str, state: str):
    run = RunFactory(**{state: True})

    response = operator.post(f"runs/{run.public_id}/{action}/")

    assert (response.status_code, slug(response)) == (RunStateError.status_code, "wrong-status")


@pytest.mark.parametrize("action", ["cancel", "retry"])
def test_acting_on_a_run_takes_its_own_permission(action: str):
    run = RunFactory(failed=True)
    other = {"cancel": "retry_run", "retry": "cancel_run"}[action]

    refused = client_of("view_run", other).post(f"runs/{run.public_id}/{action}/")
    unseen = client_of("cancel_run", "retry_run").post(f"runs/{run.public_id}/{action}/")

    assert (refused.status_code, slug(refused)) == (403, "not-allowed")
    assert f"django_stephooks.{action}_run" in problem(refused)["detail"]
    assert (unseen.status_code, slug(unseen)) == (404, "not-found")
    run.refresh_from_db()
    assert run.status == Run.Status.FAILED


@pytest.mark.parametrize("body", [{"why": "x"}, {"reason": "a\x00"}, {"reason": "x" * 2001}, []])
def test_a_reason_that_can_not_be_taken_is_refused(operator: Client, body: Any):
    response = operator.post(f"runs/{RunFactory().public_id}/cancel/", body)

    assert (response.status_code, slug(response)) == (400, "invalid-request")


# --- start ---

START = "workflows/tests.app.workflows.publish/start/"


def test_a_run_is_started_with_its_arguments(operator: Client):
    response = operator.post(START, {"arguments": {"title": "Harbor \ud800"}})

    assert response.status_code == 201, response.content
    run = Run.objects.get()
    assert response.json() == {
        "id": str(run.public_id),
        "workflow": "tests.app.workflows.publish",
        "status": "pending",
    }
    assert (run.arguments, run.started_by) == ({"title": "Harbor \ud800"}, operator.user)


def test_a_run_without_arguments_needs_no_body(operator: Client):
    assert operator.post(START).status_code == 201
    assert Run.objects.get().arguments == {}


def test_the_same_key_gives_the_same_run(operator: Client):
    first, again = (operator.post(START, {"key": "story-42"}).json() for _ in range(2))

    assert first == again
    assert Run.objects.get().key == "story-42"


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"arguments": {"titel": "x"}}, ["arguments"]),
        ({"arguments": {"self": 1}}, ["arguments"]),
        ({"arguments": ["x"]}, ["arguments"]),
        ({"arguments": None}, ["arguments"]),
        ({"title": "x"}, ["title"]),
        ({"key": ""}, ["key"]),
        ({"key": "a\x00"}, ["key"]),
        ({"key": "x" * 201}, ["key"]),
    ],
)
def test_arguments_that_do_not_fit_are_refused(operator: Client, body: Any, fields: list[str]):
    response = operator.post(START, body)

    assert (response.status_code, slug(response)) == (400, "invalid-request")
    assert list(problem(response)["errors"]) == fields
    assert not Run.objects.exists()


def test_the_refusal_says_what_the_workflow_takes(operator: Client):
    response = operator.post(START, {"arguments": {"titel": "x"}})

    assert "publish(title: 'str' = 'A story')" in problem(response)["detail"]


def test_starting_takes_the_permission():
    response = client_of("view_run").post(START)

    assert (response.status_code, slug(response)) == (403, "not-allowed")
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    "name", ["nothing", "tests.app.workflows.review", "stephooks.send_review_mail", "%00", "%ED%A0%80"]
)
def test_only_the_project_s_workflows_are_started(operator: Client, name: str):
    response = operator.post(f"workflows/{name}/start/")

    assert (response.status_code, slug(response)) == (404, "not-found")
    assert not Run.objects.exists()


def test_a_run_that_is_not_there(operator: Client):
    for address in ("", "events/"):
        assert operator.get(f"runs/{uuid.uuid4()}/{address}").status_code == 404
    for action in ("cancel", "retry"):
        assert operator.post(f"runs/{uuid.uuid4()}/{action}/").status_code == 404
