"""Several questions at once, answered at the same moment: one racer wins, and no answer of all is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from django_stephooks import (
    HookAlreadyReceivedError,
    HookCancelledError,
    HookExpiredError,
    RunStateError,
    resume_hook,
)
from django_stephooks.engine.worker import work
from django_stephooks.models import Event, Hook, Run
from django_stephooks.services.runs import cancel_run
from django_stephooks.services.sweep import sweep
from django_stephooks.types import ResumeResult

from . import workflows
from .crew import Crew, errors

NAMES = ["a", "b", "c", "d"]


def asked(definition: Any, *args: Any) -> list[Hook]:
    """The questions of a run that was just started and now waits."""
    run = definition.start(NAMES, *args)
    assert work("default") == 1
    run.refresh_from_db()
    assert run.status == Run.Status.SUSPENDED, run.error
    return list(run.hooks.order_by("pk"))


def answer(hook: Hook) -> ResumeResult:
    return resume_hook(hook.token, hook.name.upper())


def answer_having_read(hook: Hook) -> ResumeResult:
    """As under ATOMIC_REQUESTS: what is read first may not be true any more."""
    with transaction.atomic():
        assert Hook.objects.filter(run=hook.run_id).count() == len(NAMES)
        return answer(hook)


def is_consistent(run: Run) -> str:
    """One event for each question, of what became of it; returns how the race ended."""
    hooks = run.hooks.order_by("pk")
    settled = Event.objects.filter(run=run, type__in=("hook_received", "hook_expired", "hook_cancelled"))
    told = Counter(settled.values_list("call", "type"))
    assert told == Counter((hook.call, f"hook_{hook.status}") for hook in hooks)
    winners = [hook.name for hook in hooks if hook.status == Hook.Status.RECEIVED]
    assert len(winners) <= 1
    return winners[0] if winners else "nobody"


@pytest.mark.parametrize("way", [answer, answer_having_read])
def test_of_racers_answered_at_once_exactly_one_wins(
    crew: Callable[[int], Crew], way: Callable[[Hook], ResumeResult]
) -> None:
    threads = crew(len(NAMES))
    for _ in range(25):
        hooks = asked(workflows.race)
        outcomes = threads.together(*(partial(way, hook) for hook in hooks))

        winners = [hook for hook, it in zip(hooks, outcomes, strict=True) if isinstance(it, ResumeResult)]
        assert len(winners) == 1, outcomes
        assert {type(error) for error in errors(outcomes)} == {HookCancelledError}
        run = hooks[0].run
        assert is_consistent(run) == winners[0].name
        assert work("default") == 1
        run.refresh_from_db()
        assert run.result == [winners[0].name, winners[0].name.upper()]


def test_two_answers_to_each_racer(crew: Callable[[int], Crew]) -> None:
    threads = crew(2 * len(NAMES))
    for _ in range(15):
        hooks = asked(workflows.race)
        outcomes = threads.together(*(partial(answer, hook) for hook in hooks * 2))
        assert Counter(type(it) for it in outcomes) == {
            ResumeResult: 1,
            HookAlreadyReceivedError: 1,
            HookCancelledError: 2 * len(NAMES) - 2,
        }
        is_consistent(hooks[0].run)
        assert work("default") == 1


@pytest.mark.parametrize("way", [answer, answer_having_read])
def test_no_answer_of_all_is_lost_and_the_last_one_wakes_the_run(
    crew: Callable[[int], Crew], way: Callable[[Hook], ResumeResult]
) -> None:
    threads = crew(len(NAMES) + 1)
    for _ in range(25):
        hooks = asked(workflows.everybody)
        outcomes = threads.together(*(partial(way, hook) for hook in hooks), partial(work, "default"))
        assert not errors(outcomes)
        work("default")
        run = Run.objects.get(pk=hooks[0].run_id)
        assert (run.status, run.result) == (Run.Status.COMPLETED, ["A", "B", "C", "D"]), run.error


def test_answers_against_deadlines_sweeps_and_a_cancel(crew: Callable[[int], Crew]) -> None:
    """Everybody locks the run first: nobody meets a deadlock, and all are told the same."""
    threads = crew(len(NAMES) + 4)
    ends = Counter[str]()
    for number in range(40):
        hooks = asked(workflows.race, 3600)
        run = hooks[0].run
        # Two are past their deadline, and nobody has noticed yet.
        late = [hook.pk for hook in hooks[:2]]
        Hook.objects.filter(pk__in=late).update(expires_at=timezone.now() - timedelta(seconds=1))
        others = [sweep, sweep, partial(work, "default")]
        if number % 2:
            others.append(partial(cancel_run, run))
        outcomes = threads.together(*(partial(answer, hook) for hook in hooks), *others)

        told = outcomes[: len(NAMES)]
        assert all(type(error) is RunStateError for error in errors(outcomes[len(NAMES) :]))
        assert {type(error) for error in errors(told)} <= {HookCancelledError, HookExpiredError}
        won = [hook.name for hook, it in zip(hooks, told, strict=True) if isinstance(it, ResumeResult)]
        sweep()
        work("default")
        run.refresh_from_db()
        assert is_consistent(run) == (won[0] if won else "nobody")
        assert not set(won) & {"a", "b"}
        assert run.status in (Run.Status.COMPLETED, Run.Status.CANCELLED), (run.status, run.error)
        if run.status == Run.Status.COMPLETED:
            assert run.result == [won[0], won[0].upper()]
        ends[run.status] += 1
    assert ends[Run.Status.COMPLETED] >= 20
