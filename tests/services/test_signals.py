"""Signals tell other code what happened, after it was committed, with the row as it is."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from django_stephooks import cancel_run, resume_hook, retry_run, signals
from django_stephooks import registry as registry_module
from django_stephooks.models import Hook, Run
from django_stephooks.services.sweep import sweep
from tests.app import workflows
from tests.clock import Clock
from tests.factories import RunFactory

from .lookups import hook_of

pytestmark = pytest.mark.django_db(transaction=True)

SIGNALS = ["hook_created", "hook_received", "hook_expired", "hook_cancelled", "run_finished"]


@pytest.fixture
def heard() -> Iterator[list[tuple[str, str]]]:
    """The name of each signal sent, with the status of its row as the receiver saw it."""
    heard: list[tuple[str, str]] = []
    receivers = []

    def listen_to(name: str) -> None:
        def receiver(sender: type, **named: Any) -> None:
            instance = named.get("hook") or named["run"]
            assert isinstance(instance, sender)
            assert not transaction.get_connection().in_atomic_block
            heard.append((name, str(instance.status)))

        getattr(signals, name).connect(receiver)
        receivers.append((name, receiver))

    for name in SIGNALS:
        listen_to(name)
    yield heard
    for name, receiver in receivers:
        getattr(signals, name).disconnect(receiver)


def test_an_answer_is_told_and_then_the_end(heard: list[Any]) -> None:
    run = workflows.two_steps.start()
    assert heard == [("hook_created", "pending")]
    heard.clear()
    resume_hook(hook_of(run).token, 1)
    resume_hook(hook_of(run).token, 2)
    assert sorted(heard) == [
        ("hook_created", "pending"),
        ("hook_received", "received"),
        ("hook_received", "received"),
        ("run_finished", "completed"),
    ]


def test_a_deadline_is_told(heard: list[Any], clock: Clock) -> None:
    workflows.question.start("1h")
    heard.clear()
    clock.advance("1h")
    sweep()
    assert sorted(heard) == [("hook_expired", "expired"), ("run_finished", "failed")]


def test_a_deadline_that_a_turn_comes_upon_is_told(
    heard: list[Any], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflows, "tell", lambda token: clock.advance("2h"))
    workflows.question.start("1h", "return")
    assert ("hook_expired", "expired") in heard


def test_a_cancellation_is_told(heard: list[Any]) -> None:
    run = workflows.question.start()
    heard.clear()
    cancel_run(run)
    assert heard == [("hook_cancelled", "cancelled"), ("run_finished", "cancelled")]


def test_a_question_that_ends_with_its_run_is_told(
    heard: list[Any], monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.STEPHOOKS = {**settings.STEPHOOKS, "DEPLOY_GRACE": 0}
    run = workflows.question.start()
    heard.clear()
    monkeypatch.setattr(registry_module, "_definitions", {})
    Run.objects.filter(pk=run.pk).make_ready(run.created_at)
    sweep(now=run.created_at.replace(year=2100))
    assert heard == [("hook_cancelled", "cancelled"), ("run_finished", "failed")]


def test_a_run_that_crashed_too_often_is_told(heard: list[Any]) -> None:
    RunFactory(crashed=True, max_recoveries=0)
    sweep()
    assert heard == [("run_finished", "failed")]


def test_what_was_rolled_back_is_not_told(heard: list[Any]) -> None:
    run = workflows.question.start()
    heard.clear()
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        resume_hook(hook_of(run).token, "yes")
        raise ZeroDivisionError
    assert heard == []


def test_a_receiver_that_breaks_stops_nobody(heard: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    def breaks(**named: Any) -> None:
        raise RuntimeError("receiver is broken")

    signals.hook_received.connect(breaks)
    try:
        run = workflows.question.start()
        with caplog.at_level(logging.ERROR, "django_stephooks"):
            resume_hook(hook_of(run).token, "yes")
    finally:
        signals.hook_received.disconnect(breaks)
    run.refresh_from_db()
    assert run.status == Run.Status.COMPLETED
    assert ("hook_received", "received") in heard
    assert "receiver is broken" in caplog.text


def test_a_retry_is_no_end(heard: list[Any]) -> None:
    run = RunFactory(failed=True, workflow=workflows.two_steps.name, arguments={})
    retry_run(run)
    assert heard == [("hook_created", "pending")]
    assert Hook.objects.get().status == Hook.Status.PENDING
