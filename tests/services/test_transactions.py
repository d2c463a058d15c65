"""Nothing reaches the queue, or the tables, from a transaction that rolls back."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import BaseCommand, call_command
from django.db import connection, transaction
from django.test import Client, override_settings

from django_stephooks import cancel_run, resume_hook, retry_run, step, step_hook, workflow
from django_stephooks.engine.worker import advance
from django_stephooks.models import Event, Hook, Run
from tests.app import workflows

from .lookups import again, hook_of

pytestmark = pytest.mark.django_db(transaction=True)


class Change(Exception):
    """What makes a transaction roll back."""


def waiting_run() -> Run:
    """A run of `question` that was worked on until it asked."""
    run = workflows.question.start()
    advance("default")
    return again(run)


def test_a_start_that_is_rolled_back_leaves_nothing(no_worker: list[str]) -> None:
    with pytest.raises(Change), transaction.atomic():
        workflows.question.start()
        raise Change
    assert no_worker == []
    assert not Run.objects.exists()
    assert not Event.objects.exists()


def test_the_bell_rings_when_the_outermost_transaction_has_committed(no_worker: list[str]) -> None:
    with transaction.atomic():
        with transaction.atomic():
            workflows.question.using(queue="slow").start()
        assert no_worker == []
    assert no_worker == ["slow"]


def test_a_start_in_a_savepoint_that_is_rolled_back_rings_no_bell(no_worker: list[str]) -> None:
    with transaction.atomic(), pytest.raises(Change), transaction.atomic():
        workflows.question.start()
        raise Change
    assert no_worker == []


def test_runs_started_together_ring_one_bell(no_worker: list[str]) -> None:
    with transaction.atomic():
        for _ in range(5):
            workflows.echo.start()
    assert no_worker == ["default"]


def test_an_answer_that_is_rolled_back_was_never_given(no_worker: list[str]) -> None:
    run = waiting_run()
    no_worker.clear()
    token = hook_of(run).token

    with pytest.raises(Change), transaction.atomic():
        resume_hook(token, "yes")
        raise Change

    assert no_worker == []
    assert again(run).status == Run.Status.SUSPENDED
    assert hook_of(run).payload is None
    assert not run.events.filter(type=Event.Type.HOOK_RECEIVED).exists()
    resume_hook(token, "once more")
    assert no_worker == ["default"]


def test_a_cancellation_that_is_rolled_back_leaves_the_question_open(no_worker: list[str]) -> None:
    run = waiting_run()
    with pytest.raises(Change), transaction.atomic():
        cancel_run(run)
        raise Change
    assert again(run).status == Run.Status.SUSPENDED
    assert hook_of(run).status == Hook.Status.PENDING


def test_a_retry_that_is_rolled_back_leaves_the_run_failed(
    no_worker: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflows, "during", lambda: 1 / 0)
    run = workflows.working.start()
    advance("default")
    no_worker.clear()
    with pytest.raises(Change), transaction.atomic():
        retry_run(run)
        raise Change
    assert again(run).status == Run.Status.FAILED
    assert no_worker == []


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of a site with ATOMIC_REQUESTS, that answers a broken view with a 500."""
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    with override_settings(ROOT_URLCONF=f"{__package__}.views"):
        yield Client(raise_request_exception=False)


def test_a_request_that_breaks_has_started_nothing(client: Client, seen: list[Any]) -> None:
    assert client.get("/start/?break").status_code == 500
    assert not Run.objects.exists()
    assert seen == []


def test_a_request_that_breaks_has_answered_nothing(client: Client) -> None:
    run = workflows.question.start()
    assert client.get(f"/answer/{hook_of(run).token}/?break").status_code == 500
    assert again(run).status == Run.Status.SUSPENDED
    assert hook_of(run).status == Hook.Status.PENDING


def test_a_request_that_is_one_transaction_starts_and_answers(client: Client) -> None:
    assert client.get("/start/").content == b"started"
    run = Run.objects.get()
    assert client.get(f"/answer/{hook_of(run).token}/").content == b"answered"
    assert again(run).result == "yes"


class StartCommand(BaseCommand):
    def handle(self, *args: Any, **options: Any) -> None:
        workflows.question.start()


def test_a_command_starts_without_any_transaction() -> None:
    call_command(StartCommand())
    assert Run.objects.get().status == Run.Status.SUSPENDED


# Under pytest's plain `db` fixture, as in Django's TestCase, nothing is ever committed.


@pytest.mark.django_db(transaction=False)
def test_in_a_test_case_nothing_runs_until_its_commit_is_played(
    django_capture_on_commit_callbacks: Any, seen: list[Any]
) -> None:
    with django_capture_on_commit_callbacks() as callbacks:
        run = workflows.question.start()
    assert (again(run).status, seen) == (Run.Status.PENDING, [])
    assert len(callbacks) == 1


@pytest.mark.django_db(transaction=False)
def test_in_a_test_case_a_run_goes_all_the_way_when_commits_are_played(
    django_capture_on_commit_callbacks: Any,
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        run = workflows.question.start()
    assert again(run).status == Run.Status.SUSPENDED
    with django_capture_on_commit_callbacks(execute=True):
        resume_hook(hook_of(run).token, "yes")
    assert again(run).result == "yes"


@pytest.mark.django_db(transaction=False)
def test_in_a_test_case_a_bell_never_played_does_not_silence_the_next(
    django_capture_on_commit_callbacks: Any,
) -> None:
    workflows.question.start()  # as in a setUp
    with django_capture_on_commit_callbacks(execute=True):
        run = workflows.question.start()
    assert again(run).status == Run.Status.SUSPENDED


@step
def asks_inside_a_transaction() -> Any:
    with transaction.atomic():
        return step_hook("approve")


@workflow
def asking_inside_a_transaction() -> Any:
    return asks_inside_a_transaction()


def test_a_question_asked_inside_a_transaction_is_refused_with_a_sentence() -> None:
    run = again(asking_inside_a_transaction.start())
    message = run.events.filter(type=Event.Type.STEP_RETRYING).get().data["error"]["message"]
    assert "step_hook() was called inside transaction.atomic()" in message
    assert not Hook.objects.exists()
