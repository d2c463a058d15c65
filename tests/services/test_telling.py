"""People are told of a question at least once, and exactly once unless something broke."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from django_stephooks import STEP_HOOK_TIMEOUT, resume_hook
from django_stephooks.engine.worker import advance
from django_stephooks.models import Hook, Run
from django_stephooks.services.sweep import sweep
from tests.app import workflows
from tests.clock import Clock

from .lookups import again, events_of, hook_of, tokens_of

pytestmark = pytest.mark.django_db(transaction=True)


def told(token: str) -> tuple[str, str]:
    return ("told", token)


def after_the_lease() -> Any:
    return timezone.now() + timedelta(minutes=5)


@pytest.mark.parametrize("rounds", [workflows.loop_in_a_step, workflows.loop_of_steps])
def test_five_rounds_of_review_are_five_mails(rounds: Any, seen: list[Any]) -> None:
    run = rounds.start(5)
    for number in range(5):
        resume_hook(hook_of(run).token, number)
    assert again(run).result == [0, 1, 2, 3, 4]
    assert [entry for entry in seen if entry != "asking"] == [told(t) for t in tokens_of(run)]
    assert len(set(tokens_of(run))) == 5


def test_nobody_is_told_again_by_a_turn_that_finds_the_question_still_open(
    no_worker: list[str], seen: list[Any]
) -> None:
    run = workflows.question.start()
    advance("default")
    for _ in range(3):
        Run.objects.filter(pk=run.pk).make_ready(timezone.now())
        advance("default")
    assert (again(run).status, run.turn) == (Run.Status.SUSPENDED, 4)
    assert seen == ["asking", told(hook_of(run).token)] + ["asking"] * 3


def test_a_callback_that_finished_is_not_called_by_a_later_crash(
    seen: list[Any], killed: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = workflows.loop_in_a_step.start(2)
    first = hook_of(run)
    tell = workflows.tell

    def be_killed(token: str) -> None:
        tell(token)
        raise killed

    monkeypatch.setattr(workflows, "tell", be_killed)
    with pytest.raises(killed):
        resume_hook(first.token, 1)
    assert again(run).status == Run.Status.RUNNING

    monkeypatch.setattr(workflows, "tell", tell)
    assert sweep(now=after_the_lease()).recovered == 1
    second = hook_of(run)
    # The mail of the second round went out right before the kill: told again, and the first is not.
    assert seen == [told(first.token), told(second.token), told(second.token)]


def test_a_reviewer_is_told_although_the_process_was_killed_before(
    seen: list[Any], killed: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    tell = workflows.tell

    def be_killed(token: str) -> None:
        raise killed

    monkeypatch.setattr(workflows, "tell", be_killed)
    with pytest.raises(killed):
        workflows.question.start()
    run, hook = Run.objects.get(), Hook.objects.get()  # the question is stored already
    assert hook.notified_at is None

    monkeypatch.setattr(workflows, "tell", tell)
    sweep(now=after_the_lease())
    assert again(run).status == Run.Status.SUSPENDED
    assert seen == ["asking", "asking", told(hook.token)]
    hook.refresh_from_db()
    assert hook.notified_at is not None


def test_a_callback_that_fails_once_is_called_again_after_the_steps_delay(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def fail_once(token: str) -> None:
        calls.append(token)
        if len(calls) == 1:
            raise ConnectionRefusedError("no mail server")

    monkeypatch.setattr(workflows, "tell", fail_once)
    run = again(workflows.question.start())
    hook = hook_of(run)
    assert (run.status, run.due_at) == (Run.Status.SUSPENDED, clock.now + timedelta(seconds=1))
    assert hook.notified_at is None

    clock.advance("1s")
    sweep()
    assert calls == [hook.token] * 2
    assert again(run).due_at is None  # waits for the answer only
    resume_hook(hook.token, "yes")
    assert again(run).result == "yes"
    assert calls == [hook.token] * 2


def test_a_callback_that_never_works_fails_the_run_with_its_error(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def fail(token: str) -> None:
        calls.append(token)
        raise ConnectionRefusedError("no mail server")

    monkeypatch.setattr(workflows, "tell", fail)
    run = workflows.question.start()
    for delay in (1, 2, 4):
        clock.advance(delay)
        sweep()
    assert again(run).status == Run.Status.FAILED
    assert run.error["message"] == "no mail server"
    assert len(calls) == 4
    hook = hook_of(run, "ask:1/approve:1")
    assert hook.status == Hook.Status.CANCELLED  # nobody waits for it


def test_slow_mail_can_be_a_run_of_its_own(monkeypatch: pytest.MonkeyPatch, seen: list[Any]) -> None:
    monkeypatch.setattr(workflows, "tell", workflows.echo.start)
    run = workflows.question.start()
    mail = Run.objects.exclude(pk=run.pk).get()
    assert (mail.status, mail.result) == (Run.Status.COMPLETED, hook_of(run).token)
    assert again(run).status == Run.Status.SUSPENDED


def test_the_deadline_counts_from_the_question_however_long_the_mail_takes(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_at = clock.now
    monkeypatch.setattr(workflows, "tell", lambda token: clock.advance("10m"))
    run = workflows.question.start("1h", "return")
    assert hook_of(run).expires_at == asked_at + timedelta(hours=1)


def test_a_deadline_that_passes_while_the_mail_is_sent_has_passed(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflows, "tell", lambda token: clock.advance("2h"))
    run = again(workflows.question.start("1h", "return"))
    assert run.result is STEP_HOOK_TIMEOUT
    assert events_of(run).count("hook_expired") == 1


def test_a_question_without_a_callback_tells_nobody_and_waits(no_worker: list[str]) -> None:
    run = workflows.two_steps.start()
    advance("default")
    assert again(run).status == Run.Status.SUSPENDED
    assert hook_of(run).notified_at is None
