"""Many answers to one question: one is the decision, and everybody is told which."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from random import Random
from time import sleep

import pytest
from django.utils import timezone

from django_stephooks import HookAlreadyReceivedError, HookExpiredError, resume_hook
from django_stephooks.engine.worker import work
from django_stephooks.models import Event, Hook, Run
from django_stephooks.services.sweep import sweep
from django_stephooks.types import ResumeResult

from . import workflows
from .conftest import suspended
from .crew import Crew, errors

RECEIVED, EXPIRED = Event.Type.HOOK_RECEIVED, Event.Type.HOOK_EXPIRED
# How far from the deadline each of the eight answers comes, in milliseconds.
OFFSETS = (-8, -4, -2, -1, 0, 0, 1, 4)


def answers(hook: Hook, count: int) -> list[Callable[[], ResumeResult]]:
    return [
        partial(resume_hook, hook.token, {"answer": number}, by=f"reviewer {number}")
        for number in range(count)
    ]


@pytest.mark.parametrize("attempt", range(3))
def test_one_of_many_answers_wins_and_the_others_are_told_which(
    crew: Callable[[int], Crew], counted_bells: list[str], attempt: int
) -> None:
    hook = suspended(workflows.ask_one.start)
    counted_bells.clear()

    outcomes = crew(32).together(*answers(hook, 32))

    winners = [number for number, it in enumerate(outcomes) if isinstance(it, ResumeResult)]
    assert len(winners) == 1, outcomes
    losers = errors(outcomes)
    assert {type(error) for error in losers} == {HookAlreadyReceivedError}
    for error in losers:
        assert error.hook.payload == {"answer": winners[0]}
        assert f"by reviewer {winners[0]}" in str(error)
    assert Event.objects.filter(type=RECEIVED).count() == 1
    hook.refresh_from_db()
    assert (hook.status, hook.payload) == (Hook.Status.RECEIVED, {"answer": winners[0]})
    assert counted_bells == ["default"]
    assert work("default") == 1
    assert Run.objects.get().result == {"answer": winners[0]}


def test_answer_at_the_very_deadline_has_one_outcome_that_everybody_is_told(
    crew: Callable[[int], Crew],
) -> None:
    random, threads = Random(7), crew(10)  # noqa: S311
    for _ in range(25):
        hook = suspended(workflows.ask_one.start, 3600)
        deadline = timezone.now() + timedelta(milliseconds=25)
        Hook.objects.filter(pk=hook.pk).update(expires_at=deadline)

        def at(offset: float, action: Callable[[], object], deadline=deadline) -> object:
            moment = deadline + timedelta(milliseconds=offset)
            sleep(max(0.0, (moment - timezone.now()).total_seconds()))
            return action()

        offsets = random.sample(OFFSETS, len(OFFSETS))
        answering = [partial(at, *it) for it in zip(offsets, answers(hook, 8), strict=True)]
        *told, first_sweep, second_sweep = threads.together(
            *answering, partial(at, 0, sweep), partial(at, 1, sweep)
        )

        assert not errors([first_sweep, second_sweep])
        sweep()
        hook.refresh_from_db()
        winners = [number for number, it in enumerate(told) if isinstance(it, ResumeResult)]
        kinds = {type(error) for error in errors(told)}
        settled = Event.objects.filter(run=hook.run, type__in=(RECEIVED, EXPIRED))
        assert settled.count() == 1
        assert settled.get().type == f"hook_{hook.status}"
        if hook.status == Hook.Status.RECEIVED:
            assert len(winners) == 1
            assert hook.payload == {"answer": winners[0]}
            assert kinds == {HookAlreadyReceivedError}
        else:
            assert winners == []
            assert kinds == {HookExpiredError}
        work("default")
        run = Run.objects.get(pk=hook.run_id)
        assert run.result == (hook.payload if winners else "nobody")


def test_expiry_seen_by_a_late_answer_wakes_the_run_once(crew: Callable[[int], Crew]) -> None:
    hook = suspended(workflows.ask_one.start, 3600)
    Hook.objects.filter(pk=hook.pk).update(expires_at=timezone.now())

    outcomes = crew(16).together(*answers(hook, 16))

    assert {type(it) for it in outcomes} == {HookExpiredError}
    assert Event.objects.filter(type=EXPIRED).count() == 1
    assert work("default") == 1
    assert Run.objects.get().result == "nobody"


def test_crowd_of_answers_leaves_no_run_behind_when_turns_are_made_in_line(
    crew: Callable[[int], Crew], settings
) -> None:
    """Nobody sweeps here: a worker must not pass by a run that a loser just looked at."""
    settings.STEPHOOKS = {"RUNTIME": "inline"}
    threads = crew(8)
    for _ in range(15):
        run = workflows.ask_one.start()
        threads.together(*answers(run.hooks.get(), 8))
        run.refresh_from_db()
        assert run.status == Run.Status.COMPLETED
