"""Answers that come before the run waits for them: seen, never lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import DEFAULT_DB_ALIAS

from django_stephooks import resume_hook
from django_stephooks.engine import store
from django_stephooks.engine.worker import work
from django_stephooks.models import Event, Run, StepCheckpoint
from django_stephooks.models.statements import Changes, Statements, statements

from . import workflows
from .crew import PATIENCE, Crew


def finished() -> Run:
    """The only run, after all that was left to do was done."""
    work("default")
    run = Run.objects.get()
    assert run.status == Run.Status.COMPLETED, (run.status, run.error)
    assert Event.objects.filter(type=Event.Type.HOOK_RECEIVED).count() == 1
    return run


@pytest.mark.django_db(transaction=True)
def test_answer_from_inside_on_created_is_returned_in_the_same_turn() -> None:
    workflows.between["telling"] = lambda token: resume_hook(token, "at once")
    run = workflows.ask_with_telling.start()
    assert work("default") == 1
    run.refresh_from_db()
    assert (run.status, run.result, run.turn) == (Run.Status.COMPLETED, "at once", 1)


def test_answer_while_on_created_is_still_at_work_is_seen(crew: Callable[[int], Crew]) -> None:
    gate, tokens = workflows.Gate(), []
    workflows.between["telling"] = lambda token: (tokens.append(token), gate())
    workflows.ask_with_telling.start()
    turn = crew(1).begin(lambda: work("default"))
    gate.wait()

    resume_hook(tokens[0], "meanwhile")
    gate.open()

    turn.result(PATIENCE)
    assert finished().result == "meanwhile"
    assert len(tokens) == 1


@pytest.mark.django_db(transaction=True)
def test_answer_between_the_last_look_and_the_wait_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens: list[str] = []
    workflows.between["telling"] = tokens.append
    suspend = store.suspend

    def answered_just_before(*args: Any, **kwargs: Any) -> bool:
        monkeypatch.setattr(store, "suspend", suspend)
        resume_hook(tokens[0], "in the gap")
        return suspend(*args, **kwargs)

    monkeypatch.setattr(store, "suspend", answered_just_before)
    workflows.ask_with_telling.start()

    assert finished().result == "in the gap"
    assert not Event.objects.filter(type=Event.Type.RUN_SUSPENDED).exists()


def test_answer_while_the_wait_is_being_written_wakes_the_run(
    crew: Callable[[int], Crew], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn has looked, and not yet committed that it waits; the answer is held up till then."""
    tokens: list[str] = []
    workflows.between["telling"] = tokens.append
    looking = workflows.Gate()
    # The fastest statements for this database, whichever they are.
    written = type(statements(DEFAULT_DB_ALIAS))
    settle, receive = written.settle, written.receive
    received = []

    def look_and_stop(self: Statements, run: Run, columns: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        if columns.get("status") == Run.Status.SUSPENDED:
            looking()
        settle(self, run, columns, *args, **kwargs)

    def note(*args: Any, **kwargs: Any) -> None:
        received.append(looking.opened.is_set())
        receive(*args, **kwargs)

    monkeypatch.setattr(written, "settle", look_and_stop)
    monkeypatch.setattr(written, "receive", note)
    workflows.ask_with_telling.start()
    threads = crew(2)
    turn = threads.begin(lambda: work("default"))
    looking.wait()
    answer = threads.begin(lambda: resume_hook(tokens[0], "just then"))
    # Time to do the wrong thing in; a slower machine only makes the test easier to pass.
    with pytest.raises(TimeoutError):
        answer.result(0.3)
    looking.open()

    answer.result(PATIENCE)
    turn.result(PATIENCE)
    assert received == [True]
    assert finished().result == "just then"


@pytest.mark.django_db(transaction=True)
def test_answer_between_storing_the_question_and_telling_needs_no_telling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The admin shows a question as soon as it is stored; its mail may come a moment later."""
    told: list[str] = []
    workflows.between["telling"] = told.append
    record = store.record

    def answered_just_after(run: Run, changes: Changes, **kwargs: Any) -> None:
        record(run, changes, **kwargs)
        for hook in changes.hooks:
            resume_hook(hook.token, "from the list")

    monkeypatch.setattr(store, "record", answered_just_after)
    workflows.ask_with_telling.start()

    run = finished()
    assert (run.result, run.turn) == ("from the list", 1)
    assert not StepCheckpoint.objects.exists()
