"""Answers are not lost, not doubled, and not given to the wrong question."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone

from django_stephooks import (
    STEP_HOOK_TIMEOUT,
    HookAlreadyReceivedError,
    HookCancelledError,
    HookExpiredError,
    HookNotFoundError,
    InvalidTokenError,
    ResumeResult,
    RunStateError,
    cancel_run,
    resume_hook,
)
from django_stephooks.engine import store
from django_stephooks.engine.worker import advance
from django_stephooks.models import Event, Hook, Run
from django_stephooks.runtimes import rq
from django_stephooks.services.sweep import sweep
from tests.app import workflows
from tests.clock import Clock
from tests.factories import UserFactory

from .lookups import again, events_of, hook_of, tokens_of

pytestmark = pytest.mark.django_db(transaction=True)

FALSY: list[Any] = [None, False, 0, 0.0, "", [], {}]


def elsewhere(function: Callable[[], Any]) -> Any:
    """What the function gives in another thread, which has a connection of its own."""
    given: list[Any] = []

    def run() -> None:
        try:
            given.append(function())
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return given[0]


# --- one answer, and it arrives --------------------------------------------------------------------


@pytest.mark.parametrize("payload", FALSY, ids=repr)
def test_a_falsy_answer_is_returned_unchanged(payload: Any) -> None:
    run = workflows.question.start()
    hook = hook_of(run)

    resume_hook(hook.token, payload)

    again(run)
    assert run.status == Run.Status.COMPLETED, run.error
    assert run.result == payload
    assert type(run.result) is type(payload)
    hook.refresh_from_db()
    assert (hook.status, hook.payload) == (Hook.Status.RECEIVED, payload)
    with pytest.raises(HookAlreadyReceivedError):
        resume_hook(hook.token, "another")


@pytest.mark.parametrize("payload", FALSY, ids=repr)
def test_a_falsy_answer_in_the_middle_of_a_run_is_replayed_as_it_was(payload: Any) -> None:
    run = workflows.loop_in_a_step.start(2)
    resume_hook(hook_of(run).token, payload)
    resume_hook(hook_of(run).token, "second")
    assert again(run).result == [payload, "second"]


def test_who_answered_when_and_through_what_is_kept(clock: Clock) -> None:
    dana = UserFactory(username="dana", reviewer=True)
    run = workflows.question.start()
    hook = hook_of(run)
    clock.advance("5m")

    result = resume_hook(hook.token, {"approved": True}, by=dana, channel="admin")

    assert result == ResumeResult(run_id=run.pk, hook_id=hook.pk, status="received")
    hook.refresh_from_db()
    assert (hook.answered_by, hook.answered_by_label, hook.channel) == (dana, "dana", "admin")
    assert hook.settled_at == clock.now
    event = run.events.get(type=Event.Type.HOOK_RECEIVED)
    assert event.call == hook.call
    assert event.data == {"by": "dana", "by_id": dana.pk, "channel": "admin"}


def test_an_answer_may_come_from_somebody_without_an_account() -> None:
    hook = hook_of(workflows.question.start())
    resume_hook(hook.token, 1, by="link sent to dana@example.com")
    hook.refresh_from_db()
    assert hook.answered_by is None
    assert hook.answered_by_label == "link sent to dana@example.com"


def test_the_second_reviewer_is_told_what_the_first_one_decided(clock: Clock) -> None:
    run = workflows.question.start()
    token = hook_of(run).token
    resume_hook(token, {"approved": True}, by="dana")
    clock.advance("1h")

    with pytest.raises(HookAlreadyReceivedError) as refused:
        resume_hook(token, {"approved": False}, by="kim")

    assert str(refused.value) == (
        f"Hook 'approve' of run {run.pk} was already answered by dana at 2026-11-30 12:00 UTC (approved)."
    )
    assert refused.value.hook.payload == {"approved": True}
    assert refused.value.hook.answered_by_label == "dana"
    assert again(run).result == {"approved": True}
    assert events_of(run).count("hook_received") == 1


def test_an_answer_given_while_redis_is_down_is_kept_and_the_run_goes_on_later(
    settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    run = workflows.question.start()
    monkeypatch.setattr(rq, "_here", rq._Process())
    settings.STEPHOOKS = {"RUNTIME": "rq"}
    settings.RQ_QUEUES = {"default": {"UNIX_SOCKET_PATH": str(tmp_path / "nobody"), "DB": 0}}

    result = resume_hook(hook_of(run).token, {"approved": True})

    assert result.status == "received"
    assert again(run).status == Run.Status.PENDING
    settings.STEPHOOKS = {"RUNTIME": "inline"}
    sweep(now=timezone.now() + timedelta(minutes=1))
    assert again(run).result == {"approved": True}


def test_an_answer_from_inside_on_created_is_returned_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workflows, "tell", lambda token: resume_hook(token, "early"))
    run = again(workflows.question.start())
    assert (run.status, run.result) == (Run.Status.COMPLETED, "early")
    assert run.turn == 1


def test_an_answer_that_comes_while_on_created_still_works_is_returned_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workflows, "tell", lambda token: elsewhere(lambda: resume_hook(token, "meanwhile")))
    run = again(workflows.question.start())
    assert (run.status, run.result) == (Run.Status.COMPLETED, "meanwhile")
    assert run.turn == 1


def test_an_answer_counts_although_on_created_failed_after_it(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    calls = []

    def answer_and_break(token: str) -> None:
        calls.append(token)
        resume_hook(token, "in time")
        raise OSError("the mail server hung up")

    monkeypatch.setattr(workflows, "tell", answer_and_break)
    run = workflows.question.start()
    clock.advance("1s")
    sweep()
    assert again(run).result == "in time"
    assert len(calls) == 1


def test_an_answer_between_the_last_look_and_the_wait_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    really_suspend = store.suspend

    def suspend(run: Run, changes: Any, *, waits_for: list[Hook], **kwargs: Any) -> bool:
        monkeypatch.setattr(store, "suspend", really_suspend)
        resume_hook(waits_for[0].token, "just now")
        return really_suspend(run, changes, waits_for=waits_for, **kwargs)

    monkeypatch.setattr(store, "suspend", suspend)
    run = again(workflows.question.start())
    assert (run.status, run.result) == (Run.Status.COMPLETED, "just now")
    assert "run_suspended" not in events_of(run)


def test_the_same_job_on_a_second_worker_does_nothing(
    monkeypatch: pytest.MonkeyPatch, seen: list[Any]
) -> None:
    monkeypatch.setattr(workflows, "during", lambda: elsewhere(lambda: advance("default")) is None)
    run = again(workflows.working.start())
    assert run.result is True  # there was nothing to claim
    assert (run.turn, seen) == (1, ["work"])


# --- the right question ----------------------------------------------------------------------------


def test_each_round_of_a_loop_in_a_step_asks_its_own_question() -> None:
    run = workflows.loop_in_a_step.start(3)
    for answer in ("first", "second", "third"):
        resume_hook(hook_of(run).token, answer)
    assert again(run).result == ["first", "second", "third"]
    assert len(set(tokens_of(run))) == 3


def test_each_step_of_a_loop_asks_its_own_question() -> None:
    run = workflows.loop_of_steps.start(2)
    resume_hook(hook_of(run).token, "first")
    assert again(run).status == Run.Status.SUSPENDED
    resume_hook(hook_of(run).token, "second")
    assert again(run).result == ["first", "second"]


def test_the_second_step_never_gets_the_first_ones_answer() -> None:
    run = workflows.two_steps.start()
    first = hook_of(run)
    assert first.call == "draft:1/approve:1"
    resume_hook(first.token, "the draft is fine")

    second = hook_of(run)
    assert second.call == "layout:1/approve:1"
    with pytest.raises(HookAlreadyReceivedError):
        resume_hook(first.token, "the layout is not")
    assert hook_of(run) == second  # still asked

    resume_hook(second.token, "the layout is fine")
    assert again(run).result == ["the draft is fine", "the layout is fine"]


def test_a_link_for_one_of_two_open_questions_answers_that_one_only() -> None:
    run = workflows.at_once.start()
    first, second = Hook.objects.order_by("pk")

    resume_hook(second.token, "to the second")

    first.refresh_from_db()
    assert (first.status, first.payload) == (Hook.Status.PENDING, None)
    resume_hook(first.token, "to the first")
    assert again(run).result == ["to the first", "to the second"]


def test_runs_of_one_workflow_do_not_share_their_questions() -> None:
    runs = [workflows.question.start() for _ in range(3)]
    resume_hook(hook_of(runs[1]).token, "for the middle one")
    assert [again(run).status for run in runs] == ["suspended", "completed", "suspended"]


# --- too late --------------------------------------------------------------------------------------


def test_a_link_clicked_after_the_run_was_cancelled_is_told_so() -> None:
    run = workflows.question.start()
    token = hook_of(run).token
    cancel_run(run)

    with pytest.raises(HookCancelledError) as refused:
        resume_hook(token, "yes")

    assert str(refused.value) == f"Hook 'approve' of run {run.pk} is no longer asked: the run is cancelled."
    assert again(run).status == Run.Status.CANCELLED
    assert hook_of(run, "ask:1/approve:1").payload is None


def test_a_run_that_ended_with_its_answer_can_not_be_cancelled() -> None:
    run = workflows.question.start()
    resume_hook(hook_of(run).token, "yes")
    with pytest.raises(RunStateError, match="is completed already"):
        cancel_run(run)
    assert (again(run).status, run.result) == (Run.Status.COMPLETED, "yes")


def test_a_run_cancelled_before_a_worker_took_the_answer_stays_cancelled(
    no_worker: list[str],
) -> None:
    run = workflows.question.start()
    advance("default")
    token = hook_of(run).token
    resume_hook(token, "yes")
    cancel_run(run)

    assert advance("default") is None
    assert again(run).status == Run.Status.CANCELLED
    # What was decided is what the page says, whatever became of the run.
    with pytest.raises(HookAlreadyReceivedError):
        resume_hook(token, "no")


def test_an_answer_in_the_last_moment_counts_and_one_at_the_deadline_does_not(
    clock: Clock,
) -> None:
    in_time, too_late = (workflows.question.start("1h", "return") for _ in range(2))
    tokens = hook_of(in_time).token, hook_of(too_late).token

    clock.now += timedelta(hours=1) - timedelta(microseconds=1)
    resume_hook(tokens[0], "yes")
    clock.now += timedelta(microseconds=1)
    for _ in range(2):
        with pytest.raises(HookExpiredError) as refused:
            resume_hook(tokens[1], "yes")
    sweep()

    assert str(refused.value) == (
        f"Hook 'approve' of run {too_late.pk} expired at 2026-11-30 13:00 UTC; nobody had answered it."
    )
    assert again(in_time).result == "yes"
    assert again(too_late).result is STEP_HOOK_TIMEOUT


def test_answers_and_sweeps_at_the_very_second_of_the_deadline_have_one_outcome(
    clock: Clock,
) -> None:
    run = workflows.question.start("1h", "return")
    token = hook_of(run).token
    clock.advance("1h")
    start = threading.Barrier(8)
    told: list[str] = []

    def answer() -> None:
        start.wait()
        try:
            resume_hook(token, "yes")
        except HookExpiredError as error:
            told.append(str(error))
        finally:
            connections.close_all()

    def pass_by() -> None:
        start.wait()
        try:
            sweep()
        finally:
            connections.close_all()

    threads = [threading.Thread(target=answer if n % 2 else pass_by) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(told) == 4
    assert again(run).result is STEP_HOOK_TIMEOUT
    assert events_of(run).count("hook_expired") == 1


def test_answered_is_told_before_expired_and_expired_before_cancelled(clock: Clock) -> None:
    answered = workflows.one_after_the_other.start("1h", "2h")
    first = hook_of(answered)
    resume_hook(first.token, "yes")
    expired = workflows.question.start("1h", "return")
    second = hook_of(expired)
    clock.advance("3h")
    cancel_run(answered)
    sweep()
    assert again(expired).is_finished

    with pytest.raises(HookAlreadyReceivedError):
        resume_hook(first.token, "no")
    with pytest.raises(HookExpiredError):
        resume_hook(second.token, "no")


def test_a_question_whose_run_was_deleted_is_not_found() -> None:
    run = workflows.question.start()
    token = hook_of(run).token
    run.delete()
    with pytest.raises(HookNotFoundError):
        resume_hook(token, "yes")


def test_a_revoked_token_answers_nothing_and_a_new_one_does() -> None:
    run = workflows.question.start()
    hook = hook_of(run)
    old = hook.token
    Hook.objects.filter(pk=hook.pk).revoke_tokens()

    with pytest.raises(InvalidTokenError):
        resume_hook(old, "yes")
    resume_hook(hook_of(run).token, "yes")
    assert again(run).result == "yes"
