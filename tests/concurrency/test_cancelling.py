"""Cancel, answer, sweep and work at the same moment: terminal stays terminal, nobody sees a deadlock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from random import Random
from time import sleep
from typing import Any

from django.utils import timezone

from django_stephooks import (
    HookAlreadyReceivedError,
    HookCancelledError,
    HookExpiredError,
    cancel_run,
    resume_hook,
)
from django_stephooks.engine.worker import work
from django_stephooks.exceptions import RunStateError
from django_stephooks.models import Event, Hook, Run
from django_stephooks.services.sweep import sweep
from django_stephooks.types import ResumeResult

from . import workflows
from .conftest import suspended
from .crew import Crew

T = Event.Type
FINISHED = {T.RUN_COMPLETED, T.RUN_CANCELLED, T.RUN_FAILED}
SETTLED = {T.HOOK_RECEIVED, T.HOOK_EXPIRED, T.HOOK_CANCELLED}
REFUSALS = (HookAlreadyReceivedError, HookExpiredError, HookCancelledError)


def after(milliseconds: float, action: Callable[[], Any]) -> Callable[[], Any]:
    def act() -> Any:
        sleep(milliseconds / 1000)
        return action()

    return act


def check(run: Run, cancelled: Any, answered: Any) -> None:
    """What must be true of a run that was cancelled and answered at once, however it came out."""
    run.refresh_from_db()
    hook = run.hooks.get()
    types = list(run.events.values_list("type", flat=True))
    assert sum(type in SETTLED for type in types) == 1, types
    assert f"hook_{hook.status}" in types
    assert sum(type in FINISHED for type in types) == 1, types
    assert types[-1] in FINISHED, types

    if isinstance(cancelled, Run):
        assert run.status == Run.Status.CANCELLED
        assert run.result is None
    else:
        assert isinstance(cancelled, RunStateError), cancelled
        assert run.status == Run.Status.COMPLETED
    if isinstance(answered, ResumeResult):
        assert (hook.status, hook.payload) == (Hook.Status.RECEIVED, "yes")
    else:
        assert isinstance(answered, REFUSALS), answered
        assert hook.status != Hook.Status.RECEIVED
        assert hook.payload is None
    if run.status == Run.Status.COMPLETED:
        assert run.result == ("yes" if isinstance(answered, ResumeResult) else "nobody")


def test_cancel_against_answer_against_sweep(crew: Callable[[int], Crew]) -> None:
    random, threads = Random(3), crew(4)  # noqa: S311
    for _ in range(100):
        hook = suspended(workflows.ask_one.start, 3600)
        deadline = timezone.now() + timedelta(milliseconds=random.uniform(0, 12))
        Hook.objects.filter(pk=hook.pk).update(expires_at=deadline)

        cancelled, answered, *swept = threads.together(
            after(random.uniform(0, 8), partial(cancel_run, hook.run_id, by="dana")),
            after(random.uniform(0, 8), partial(resume_hook, hook.token, "yes")),
            after(random.uniform(2, 12), sweep),
            after(random.uniform(2, 12), sweep),
        )

        assert not [it for it in swept if isinstance(it, Exception)]
        # Nobody worked, so nothing else can have ended the run.
        assert isinstance(cancelled, Run)
        assert work("default") == 0
        check(hook.run, cancelled, answered)


def test_cancel_against_answer_against_sweep_against_a_turn_at_work(
    crew: Callable[[int], Crew],
) -> None:
    random, threads = Random(4), crew(5)  # noqa: S311
    for _ in range(100):
        hook = suspended(workflows.ask_one.start, 3600)
        deadline = timezone.now() + timedelta(milliseconds=random.uniform(0, 12))
        Hook.objects.filter(pk=hook.pk).update(expires_at=deadline)

        def work_until_the_others_are_done() -> None:
            for _ in range(6):
                work("default")
                sleep(0.003)

        answered, swept, worked, worked_too, cancelled = threads.together(
            after(random.uniform(0, 6), partial(resume_hook, hook.token, "yes")),
            after(random.uniform(0, 12), sweep),
            work_until_the_others_are_done,
            work_until_the_others_are_done,
            after(random.uniform(0, 20), partial(cancel_run, hook.run_id)),
        )

        assert not [it for it in (swept, worked, worked_too) if isinstance(it, Exception)]
        check(hook.run, cancelled, answered)


def test_cancelling_a_run_at_work_keeps_what_it_does_later_out_of_the_journal(
    crew: Callable[[int], Crew],
) -> None:
    gate = workflows.Gate()
    workflows.between["working"] = gate
    run = workflows.take_long.start()
    turn = crew(1).begin(lambda: work("default"))
    gate.wait()

    cancel_run(run, by="dana", reason="not needed")
    gate.open()

    turn.result(60)
    run.refresh_from_db()
    assert (run.status, run.result) == (Run.Status.CANCELLED, None)
    assert run.events.last().type == T.RUN_CANCELLED
    assert not run.checkpoints.exists()
    assert workflows.done == []


def test_two_cancel_at_once_and_one_is_told_so(crew: Callable[[int], Crew]) -> None:
    hook = suspended(workflows.ask_one.start)
    outcomes = crew(8).together(*[partial(cancel_run, hook.run_id)] * 8)
    assert sum(isinstance(it, Run) for it in outcomes) == 1
    assert sum(isinstance(it, RunStateError) for it in outcomes) == 7
    assert Event.objects.filter(type=T.RUN_CANCELLED).count() == 1
    assert Event.objects.filter(type=T.HOOK_CANCELLED).count() == 1
