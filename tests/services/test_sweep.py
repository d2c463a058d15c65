"""The sweep makes deadlines, timers and recovery happen: in batches, idempotently, cheaply."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_stephooks import resume_hook
from django_stephooks.engine import store
from django_stephooks.engine.worker import advance
from django_stephooks.models import Event, Hook, Run, Sweep
from django_stephooks.services import sweep as module
from django_stephooks.services.sweep import SweepResult, seconds_until_due, sweep
from tests.app import workflows
from tests.clock import Clock
from tests.factories import HookFactory, RunFactory

from . import bells
from .lookups import again, events_of, hook_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def small_batches(no_worker: list[str], settings: Any) -> None:
    settings.STEPHOOKS = {**settings.STEPHOOKS, "SWEEP_BATCH": 2}


def test_there_is_nothing_to_do(no_worker: list[str], clock: Clock) -> None:
    HookFactory()
    HookFactory(received=True).run.delete()
    RunFactory(sleeping=True)
    RunFactory(running=True)
    RunFactory(completed=True)
    no_worker.clear()
    assert sweep() == SweepResult()
    assert (no_worker, bells.rung_again) == ([], [])
    assert str(sweep()) == "0 expired, 0 woken, 0 recovered, 0 failed, 0 rung"


def test_it_keeps_when_it_came_by_last(clock: Clock) -> None:
    sweep()
    clock.advance("5s")
    sweep()
    assert Sweep.objects.get().last_swept_at == clock.now


def test_passed_deadlines_expire_in_batches(small_batches: None, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = [HookFactory(past_deadline=True) for _ in range(5)]
    waiting = HookFactory()
    sizes = []
    really = module.expire_hooks

    def expire_hooks(hooks: Any, **kwargs: Any) -> Any:
        expired = really(hooks, **kwargs)
        sizes.append(len(expired))
        return expired

    monkeypatch.setattr(module, "expire_hooks", expire_hooks)
    assert sweep().expired == 5
    assert sizes == [2, 2, 1]
    assert {again(hook.run).status for hook in hooks} == {"pending"}
    assert again(waiting.run).status == Run.Status.SUSPENDED
    assert bells.rung == ["default"] * 3
    assert sweep().expired == 0


def test_timers_wake_their_runs_in_batches(small_batches: None, clock: Clock) -> None:
    runs = [RunFactory(sleeping=True, queue="slow") for _ in range(5)]
    clock.advance("1h")
    later = RunFactory(sleeping=True)
    assert sweep().woken == 5
    assert {(again(run).status, run.due_at) for run in runs} == {("pending", clock.now)}
    assert again(later).status == Run.Status.SUSPENDED
    assert bells.rung == ["slow"] * 3


def test_crashed_runs_are_recovered_in_batches(small_batches: None) -> None:
    runs = [RunFactory(crashed=True) for _ in range(5)]
    alive = RunFactory(running=True)
    assert sweep().recovered == 5
    assert {(again(run).status, run.recoveries) for run in runs} == {("pending", 1)}
    assert {tuple(events_of(run)) for run in runs} == {("run_started", "run_recovered")}
    assert again(alive).status == Run.Status.RUNNING
    assert sweep().recovered == 0


def test_a_run_that_keeps_crashing_fails_with_a_reason(no_worker: list[str], clock: Clock) -> None:
    run = workflows.fragile.start()
    for _ in range(2):  # max_recoveries=1: two turns
        assert store.claim("default", lease_until=clock.advance("1m")) == run
        clock.advance("1m")
        result = sweep()

    assert (result.recovered, result.failed) == (0, 1)
    assert advance("default") is None
    assert (again(run).status, run.turn) == (Run.Status.FAILED, 2)
    assert run.error["type"] == "django_stephooks.exceptions:RunLostError"
    assert run.error["message"].startswith("Its worker stopped in the middle of turn 2 ")
    assert run.error["message"].endswith("max_recoveries=1. Find out why, then retry the run.")
    assert events_of(run) == ["run_started", "run_recovered", "run_failed"]


def test_a_run_that_is_never_to_be_recovered_fails_at_its_first_crash() -> None:
    run = RunFactory(crashed=True, max_recoveries=0)
    assert sweep().failed == 1
    assert again(run).status == Run.Status.FAILED


def test_a_question_of_a_run_that_crashed_too_often_is_no_longer_asked(no_worker: list[str]) -> None:
    hook = HookFactory(run=RunFactory(crashed=True, max_recoveries=0))
    sweep()
    hook.refresh_from_db()
    assert hook.status == Hook.Status.CANCELLED


def test_a_turn_that_got_somewhere_clears_the_count_of_crashes(no_worker: list[str]) -> None:
    run = RunFactory(crashed=True, workflow=workflows.question.name, arguments={})
    sweep()
    assert again(run).recoveries == 1
    advance("default")
    assert (again(run).status, run.recoveries) == (Run.Status.SUSPENDED, 0)


def test_a_lost_worker_that_comes_back_writes_nothing(
    no_worker: list[str], monkeypatch: pytest.MonkeyPatch, clock: Clock, seen: list[Any]
) -> None:
    def be_away() -> str:
        if len(seen) == 1:
            clock.advance("5m")
            sweep()
            advance("default")  # another worker does the whole of it
            return "the lost one's"
        return "the other one's"

    monkeypatch.setattr(workflows, "during", be_away)
    run = workflows.working.start()
    advance("default")
    assert (again(run).status, run.result) == (Run.Status.COMPLETED, "the other one's")
    assert events_of(run).count("step_completed") == 1
    assert events_of(run).count("run_completed") == 1


def test_the_bell_rings_again_for_what_nobody_took(no_worker: list[str], clock: Clock) -> None:
    RunFactory(queue="slow")
    RunFactory(queue="slow")
    clock.advance("9s")
    assert sweep().rung == 0
    clock.advance("1s")
    assert sweep().rung == 1
    assert bells.rung_again == ["slow"]


def test_the_grace_before_the_bell_rings_again_is_a_setting(
    no_worker: list[str], clock: Clock, settings: Any
) -> None:
    settings.STEPHOOKS = {**settings.STEPHOOKS, "READY_GRACE": "1m"}
    RunFactory()
    clock.advance("59s")
    assert sweep().rung == 0
    clock.advance("1s")
    assert sweep().rung == 1


def test_an_answer_whose_bell_was_lost_is_worked_on_in_the_end(
    no_worker: list[str], settings: Any, clock: Clock
) -> None:
    run = HookFactory(received=True, answer="yes").run
    assert again(run).status == Run.Status.PENDING
    settings.STEPHOOKS = {"RUNTIME": "inline"}
    clock.advance("1m")
    sweep()
    assert again(run).result == {"title": "A story", "answer": "yes"}


def test_a_finished_run_is_left_alone_whatever_its_questions_say(no_worker: list[str]) -> None:
    run = RunFactory(completed=True)
    hook = HookFactory(run=run, past_deadline=True)
    sweep()
    assert again(run).status == Run.Status.COMPLETED
    hook.refresh_from_db()
    assert hook.status == Hook.Status.EXPIRED


def test_every_part_finds_its_own_in_one_pass(no_worker: list[str], clock: Clock) -> None:
    asked = HookFactory(expires_at=clock.now + timedelta(hours=1)).run
    asleep = RunFactory(sleeping=True)
    crashed = RunFactory(crashed=True)
    hopeless = RunFactory(crashed=True, max_recoveries=0)
    forgotten = RunFactory(queue="slow")
    clock.advance("1h")

    assert sweep() == SweepResult(expired=1, woken=1, recovered=1, failed=1, rung=1)
    assert {again(run).status for run in (asked, asleep, crashed, forgotten)} == {"pending"}
    assert again(hopeless).status == Run.Status.FAILED
    assert sweep() == SweepResult(rung=1)  # nobody took the forgotten one


def test_every_queue_with_forgotten_runs_is_rung_and_no_other(no_worker: list[str], clock: Clock) -> None:
    for queue in ("b", "a", "c", "b"):
        RunFactory(queue=queue)
    clock.advance("1m")
    for queue in ("d", "a"):
        RunFactory(queue=queue)
    assert sweep().rung == 3
    assert bells.rung_again == ["a", "b", "c"]


@pytest.mark.parametrize(
    "what",
    [
        lambda at: HookFactory(expires_at=at),
        lambda at: HookFactory(expires_at=at, on_timeout="return"),
        lambda at: RunFactory(sleeping=True, due_at=at),
        lambda at: RunFactory(running=True, due_at=at),
    ],
    ids=["raise", "return", "timer", "lease"],
)
def test_the_next_moment_to_sweep_at_is_known(no_worker: list[str], clock: Clock, what: Any) -> None:
    assert seconds_until_due(longest=5) == 5
    what(clock.now + timedelta(seconds=3))
    assert seconds_until_due(longest=5) == 3
    assert seconds_until_due(longest=1) == 1
    clock.advance("3s")
    assert seconds_until_due(longest=5) == 0
    clock.advance("1h")
    assert seconds_until_due(longest=5) == 0
    sweep()
    assert seconds_until_due(longest=5) == 5


def test_what_no_sweep_acts_on_is_no_moment_to_sweep_at(no_worker: list[str], clock: Clock) -> None:
    HookFactory(expires_at=None)
    HookFactory(overdue=True)
    HookFactory(expires_at=clock.now + timedelta(seconds=1), received=True).run.delete()
    RunFactory()
    RunFactory(completed=True)
    clock.advance("1s")
    assert seconds_until_due(longest=5) == 5


def queries_of_a_sweep() -> int:
    with CaptureQueriesContext(connection) as queries:
        assert sweep() == SweepResult()
    return len(queries)


def test_an_idle_sweep_asks_the_same_few_questions_however_much_waits(no_worker: list[str]) -> None:
    sweep()  # the first one writes its row
    nothing = queries_of_a_sweep()
    for _ in range(30):
        HookFactory(expires_at=None)
        HookFactory(overdue=True)
        RunFactory(sleeping=True)
        RunFactory(running=True)
        RunFactory(completed=True)
    assert queries_of_a_sweep() == nothing
    # Four look-ups, and one row to keep; the rest is BEGIN and COMMIT.
    assert nothing <= 16


def test_two_sweeps_at_once_do_not_do_anything_twice(
    no_worker: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = HookFactory(past_deadline=True).run
    really = module._hold

    def sweep_meanwhile(*args: Any) -> Any:
        # Only where rows are not locked can another one come in between; it must not matter.
        monkeypatch.setattr(module, "_hold", really)
        held = really(*args)
        module.expire_hooks(Hook.objects.all(), now=Hook.objects.get().expires_at)
        return held

    monkeypatch.setattr(module, "_hold", sweep_meanwhile)
    assert sweep().expired == 0
    assert events_of(run).count("hook_expired") == 1


def test_an_answer_that_came_before_the_sweep_stands(no_worker: list[str], clock: Clock) -> None:
    run = workflows.question.start("1h")
    advance("default")
    resume_hook(hook_of(run).token, "just in time")
    clock.advance("2h")
    sweep()
    advance("default")
    assert again(run).result == "just in time"
    assert not run.events.filter(type=Event.Type.HOOK_EXPIRED).exists()
