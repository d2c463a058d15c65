"""Start, cancel and retry: what a run is about, one run per key, and ends that stay ends."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import IntegrityError

from django_stephooks import RunStateError, SerializationError, aio, cancel_run, resume_hook, retry_run
from django_stephooks import registry as registry_module
from django_stephooks.engine.worker import advance
from django_stephooks.models import Event, Hook, Run, StepCheckpoint
from django_stephooks.services import runs as services
from tests.app import workflows
from tests.factories import ArticleFactory, RunFactory, UserFactory

from .lookups import again, events_of, hook_of

pytestmark = pytest.mark.django_db(transaction=True)


# --- start -----------------------------------------------------------------------------------------


def test_a_run_knows_what_it_is_about_and_who_started_it(no_worker: list[str]) -> None:
    article, user = ArticleFactory(), UserFactory(username="dana")
    run = workflows.publish.using(subject=article, started_by=user, queue="slow").start(title="A story")
    again(run)
    assert (run.subject, run.started_by, run.queue) == (article, user, "slow")
    assert run.arguments == {"title": "A story"}
    assert run.status == Run.Status.PENDING
    assert run.events.get(type=Event.Type.RUN_STARTED).data == {"by": "dana"}
    assert no_worker == ["slow"]


def test_a_run_outlives_the_user_who_started_it(no_worker: list[str]) -> None:
    user = UserFactory()
    run = workflows.echo.using(started_by=user).start()
    user.delete()
    assert again(run).started_by is None


def test_options_of_using_add_up(no_worker: list[str]) -> None:
    run = workflows.echo.using(queue="slow").using(key="a").start(1)
    assert (run.queue, run.key) == ("slow", "a")


def test_a_lone_step_is_started_like_a_workflow() -> None:
    run = workflows.ask.using(key="lone").start()
    resume_hook(hook_of(run).token, "yes")
    assert again(run).result == "yes"


def test_a_workflow_says_how_often_it_is_recovered(no_worker: list[str], settings: Any) -> None:
    settings.STEPHOOKS = {**settings.STEPHOOKS, "MAX_RECOVERIES": 7}
    assert workflows.fragile.start().max_recoveries == 1
    assert workflows.echo.start().max_recoveries == 7


@pytest.mark.parametrize("end", ["complete", "cancel", "wait"])
def test_a_key_gives_the_same_run_whatever_became_of_it(end: str) -> None:
    first = workflows.question.using(key="story-42").start()
    if end == "complete":
        resume_hook(hook_of(first).token, "yes")
    elif end == "cancel":
        cancel_run(first)
    status = again(first).status

    second = workflows.question.using(key="story-42").start()

    assert second == first
    assert again(second).status == status
    assert Run.objects.count() == 1
    assert events_of(first).count("run_started") == 1


def test_a_key_belongs_to_one_workflow(no_worker: list[str]) -> None:
    runs = [
        workflows.echo.using(key="a").start(),
        workflows.echo.using(key="A").start(),
        workflows.echo.using(key="b").start(),
        workflows.working.using(key="a").start(),
        workflows.echo.start(),
        workflows.echo.start(),
    ]
    assert len({run.pk for run in runs}) == 6


def test_whoever_loses_the_race_for_a_key_gets_the_winners_run(
    no_worker: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def be_overtaken(*args: Any) -> Any:
        # What the database says if the other one commits between the look for the key and the insert.
        RunFactory(workflow=workflows.echo.name, key="a")
        raise IntegrityError

    monkeypatch.setattr(services, "_start", be_overtaken)
    run = workflows.echo.using(key="a").start(1)
    assert run == Run.objects.get()
    assert events_of(run) == ["run_started"]


@pytest.mark.parametrize("key", ["x" * 201, "a\u0000", "\ud800"], ids=ascii)
def test_a_key_that_can_not_be_stored_is_refused(key: str) -> None:
    with pytest.raises(SerializationError, match=r"^key: "):
        workflows.echo.using(key=key).start()


@pytest.mark.parametrize("queue", ["x" * 101, "a\u0000"], ids=ascii)
def test_a_queue_that_can_not_be_stored_is_refused(queue: str) -> None:
    with pytest.raises(SerializationError, match=r"^queue: "):
        workflows.echo.using(queue=queue).start()


def test_runs_are_named_to_the_outside_by_ids_that_tell_nothing() -> None:
    first, second = RunFactory(), RunFactory()
    assert first.public_id != second.public_id
    assert first.public_id.version == 4


# --- cancel ----------------------------------------------------------------------------------------


def test_cancelling_ends_the_questions_too() -> None:
    dana = UserFactory(username="dana")
    run = workflows.question.start()

    cancelled = cancel_run(run, by=dana, reason="no longer needed")

    assert cancelled.status == Run.Status.CANCELLED
    assert cancelled.finished_at is not None
    assert hook_of(run, "ask:1/approve:1").status == Hook.Status.CANCELLED
    assert run.events.get(type=Event.Type.RUN_CANCELLED).data == {
        "by": "dana",
        "by_id": dana.pk,
        "reason": "no longer needed",
    }
    assert events_of(run)[-2:] == ["hook_cancelled", "run_cancelled"]


def test_a_run_can_be_cancelled_before_it_began(no_worker: list[str]) -> None:
    run = workflows.working.start()
    cancel_run(run.pk)
    assert advance("default") is None
    assert again(run).status == Run.Status.CANCELLED


def test_a_turn_whose_run_is_cancelled_meanwhile_writes_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workflows, "during", lambda: cancel_run(Run.objects.get()).pk)
    run = again(workflows.work_then_ask.start())
    assert run.status == Run.Status.CANCELLED
    assert events_of(run)[-1] == "run_cancelled"
    assert not Hook.objects.exists()


@pytest.mark.parametrize("state", ["completed", "cancelled"])
def test_what_is_over_can_not_be_cancelled(state: str) -> None:
    run = RunFactory(**{state: True})
    with pytest.raises(RunStateError) as refused:
        cancel_run(run)
    assert str(refused.value) == f"Run {run.pk} is {state} already; there is nothing to cancel."
    assert again(run).status == state


def test_a_failed_run_can_be_cancelled() -> None:
    assert cancel_run(RunFactory(failed=True)).status == Run.Status.CANCELLED


def test_by_must_be_somebody() -> None:
    run = RunFactory()
    with pytest.raises(TypeError, match="is nobody: pass a user, or a string"):
        cancel_run(run, by=42)


def test_cancel_and_retry_can_be_awaited() -> None:
    failed = RunFactory(failed=True, workflow=workflows.echo.name, arguments={"value": 1})
    retried = async_to_sync(aio.retry_run)(failed)
    assert again(retried).result == 1
    assert async_to_sync(aio.cancel_run)(RunFactory(suspended=True)).status == Run.Status.CANCELLED


# --- retry -----------------------------------------------------------------------------------------


def test_a_retried_run_does_again_only_what_failed(monkeypatch: pytest.MonkeyPatch, seen: list[Any]) -> None:
    def fail(token: str) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(workflows, "during", lambda: "done")
    monkeypatch.setattr(workflows.ask, "retries", workflows.work.retries)
    tell = workflows.tell
    monkeypatch.setattr(workflows, "tell", fail)
    run = again(workflows.work_then_ask.start())
    assert (run.status, run.error["message"]) == (Run.Status.FAILED, "broken")

    monkeypatch.setattr(workflows, "tell", tell)
    dana = UserFactory(username="dana")
    retry_run(run, by=dana)

    assert again(run).status == Run.Status.SUSPENDED
    assert run.error is None
    assert run.finished_at is None
    assert seen.count("work") == 1
    data = run.events.get(type=Event.Type.RUN_RETRIED).data
    assert (data["by"], data["by_id"]) == ("dana", dana.pk)
    resume_hook(hook_of(run).token, "yes")
    assert again(run).result == ["done", "yes"]


def test_a_retried_run_asks_its_open_question_again_under_the_same_token(
    monkeypatch: pytest.MonkeyPatch, seen: list[Any], settings: Any
) -> None:
    settings.STEPHOOKS = {**settings.STEPHOOKS, "DEPLOY_GRACE": 0}
    run = workflows.question.start()
    token = hook_of(run).token
    definitions = registry_module._definitions
    monkeypatch.setattr(registry_module, "_definitions", {})
    Run.objects.filter(pk=run.pk).make_ready(run.created_at)
    advance("default")
    assert again(run).status == Run.Status.FAILED
    assert run.error["message"].startswith("No workflow or step is called 'tests.app.workflows.question'.")
    assert hook_of(run, "ask:1/approve:1").status == Hook.Status.CANCELLED

    monkeypatch.setattr(registry_module, "_definitions", definitions)
    retry_run(run)

    assert hook_of(run).token == token
    assert seen.count(("told", token)) == 1
    resume_hook(token, "yes")
    assert again(run).result == "yes"


@pytest.mark.parametrize("state", ["running", "suspended", "completed", "cancelled"])
def test_only_a_failed_run_can_be_retried(state: str) -> None:
    run = RunFactory(**{state: True})
    with pytest.raises(RunStateError) as refused:
        retry_run(run)
    assert str(refused.value) == f"Run {run.pk} is {state}; only a failed run can be retried."
    assert again(run).status == state


def test_checkpoints_are_gone_when_a_run_is_complete() -> None:
    run = RunFactory(workflow=workflows.echo.name, turn=1, arguments={"value": 1})
    StepCheckpoint.objects.create(run=run, call="old:1", data=1, saved_at=run.created_at)
    advance("default")
    assert again(run).status == Run.Status.COMPLETED
    assert not StepCheckpoint.objects.exists()
