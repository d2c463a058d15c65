"""A worker that is slow, hangs, dies, or is told to stop: who has the run, and what may still be written."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import DatabaseError, OperationalError, connections
from django.utils import timezone

from django_stephooks import aio, cancel_run, retry_run, save_step_checkpoint, step, step_hook, workflow
from django_stephooks.engine import driving, lease, store
from django_stephooks.engine.worker import advance
from django_stephooks.models import Event, Run, StepCheckpoint
from django_stephooks.services.sweep import sweep

from .watching import again, answer, calls_of, did, events_of

pytestmark = pytest.mark.django_db(transaction=True)

in_the_middle: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_in_the_middle():
    in_the_middle.clear()


@step
def first() -> None:
    did.append("first")


@step
def middle() -> None:
    did.append("middle")
    while in_the_middle:
        in_the_middle.pop(0)()


@step
def last() -> None:
    did.append("last")


@workflow
def three_steps() -> str:
    first()
    middle()
    last()
    return "done"


@workflow
async def three_steps_async() -> str:
    for each in (first, middle, last):
        await sync_to_async(each)()
    return "done"


@workflow
def saves_and_asks() -> Any:
    middle()
    save_step_checkpoint("by the lost turn")
    return step_hook("approve")


def lease_ends(clock: Any) -> None:
    clock.advance("61s")
    sweep()


# --- the heartbeat ----------------------------------------------------------------------------------------


@pytest.fixture
def short_lease(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.STEPHOOKS = {**settings.STEPHOOKS, "LEASE": "300ms"}
    monkeypatch.setattr(lease, "_keeper", lease.Keeper())


def renewed_while_it_works(run: Run) -> bool:
    """Wait for the heartbeat: the lease's end moves although the turn writes nothing."""
    before = again(run).due_at
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if again(run).due_at > before + timedelta(milliseconds=300):
            return True
        time.sleep(0.02)
    return False


def test_the_lease_of_a_long_step_is_renewed_and_nobody_else_gets_the_run(short_lease, no_worker):
    run = three_steps.start()
    in_the_middle.append(lambda: did.append(renewed_while_it_works(run)))
    in_the_middle.append(lambda: did.append(sweep().recovered))
    advance("default")
    assert did == ["first", "middle", True, 0, "last"]
    assert again(run).status == Run.Status.COMPLETED
    assert run.recoveries == 0


@workflow(job_timeout="200ms")
def hangs_where_nothing_can_interrupt_it() -> None:
    middle()


def test_the_heartbeat_ends_with_the_job_timeout(short_lease, no_worker, monkeypatch):
    # A limit that can not be enforced, as in a C call outside the main thread.
    monkeypatch.setattr(driving, "time_limit", lambda *args: contextlib.nullcontext())
    run = hangs_where_nothing_can_interrupt_it.start()

    def hang() -> None:
        deadline = time.monotonic() + 20
        while not sweep().recovered and time.monotonic() < deadline:
            time.sleep(0.05)
        did.append(again(run).status)

    in_the_middle.append(hang)
    advance("default")
    assert did == ["middle", Run.Status.PENDING]
    assert again(run).status == Run.Status.PENDING, "the lost turn wrote nothing"


def test_one_heartbeat_serves_all_turns_of_the_process_and_stops_when_there_are_none(short_lease, no_worker):
    runs = [three_steps.start() for _ in range(2)]
    heartbeats = []

    def another_worker() -> None:
        try:
            advance("default")
        finally:
            connections.close_all()

    def work_side_by_side() -> None:
        heartbeats.append(lease._keeper.thread)
        in_the_middle.append(lambda: did.append(len(lease._keeper.held)))
        in_the_middle.append(lambda: heartbeats.append(lease._keeper.thread))
        thread = threading.Thread(target=another_worker)
        thread.start()
        thread.join()

    in_the_middle.append(work_side_by_side)
    advance("default")

    assert {again(run).status for run in runs} == {Run.Status.COMPLETED}
    assert 2 in did
    assert heartbeats[0] is heartbeats[1]
    heartbeats[0].join(20)
    assert not heartbeats[0].is_alive()
    assert lease._keeper.thread is None


def test_a_database_that_fails_under_the_heartbeat_ends_no_turn(short_lease, no_worker, monkeypatch):
    failed = threading.Event()
    extend = type(Run.objects.all()).extend_lease

    def fails_once(self: Any, *args: Any, **kwargs: Any) -> int:
        if threading.current_thread().name == "stephooks-lease" and not failed.is_set():
            failed.set()
            raise OperationalError("gone away")
        return extend(self, *args, **kwargs)

    monkeypatch.setattr(type(Run.objects.all()), "extend_lease", fails_once)
    run = three_steps.start()
    in_the_middle.append(lambda: failed.wait(20))
    in_the_middle.append(lambda: did.append(renewed_while_it_works(run)))
    advance("default")
    assert did == ["first", "middle", True, "last"]
    assert again(run).status == Run.Status.COMPLETED


# --- a lost lease ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("definition", [three_steps, three_steps_async])
def test_a_turn_that_lost_its_run_writes_nothing_more(definition, clock, no_worker):
    run = definition.start()

    def another_worker_finishes_it() -> None:
        lease_ends(clock)
        advance("default")
        assert again(run).status == Run.Status.COMPLETED
        did.append("the other worker is done")

    in_the_middle.append(another_worker_finishes_it)
    advance("default")

    assert did == ["first", "middle", "middle", "last", "the other worker is done"]
    assert run.turn == 2
    assert again(run).result == "done"
    completed = calls_of(run, Event.Type.STEP_COMPLETED)
    assert completed == ["first:1", "middle:1", "last:1"]
    assert events_of(run).count("run_completed") == 1


@workflow
async def several_at_once() -> str:
    async def a_little_later() -> None:
        await asyncio.sleep(0.02)
        await async_last()

    await sync_to_async(first)()
    await asyncio.gather(async_middle(), a_little_later())
    return "done"


@step
async def async_middle() -> None:
    await sync_to_async(middle.function)()


@step
async def async_last() -> None:
    last.function()


def test_a_process_that_slept_for_longer_than_its_lease_begins_nothing_more(clock, no_worker):
    run = several_at_once.start()

    def sleep_while_another_worker_does_it_all() -> None:
        time.sleep(0.1)  # the sibling is about to begin its step
        lease_ends(clock)
        advance("default")
        did.append("awake again")

    in_the_middle.append(sleep_while_another_worker_does_it_all)
    advance("default")
    assert did == ["first", "middle", "middle", "last", "awake again"]
    assert again(run).result == "done"


def test_a_long_turn_that_kept_its_run_goes_on(clock, no_worker):
    run = several_at_once.start()

    def take_long() -> None:
        Run.objects.filter(pk=run.pk).extend_lease(1, lease_until=clock.now + timedelta(hours=2))
        clock.advance("1h")

    in_the_middle.append(take_long)
    advance("default")
    assert did == ["first", "middle", "last"]
    assert again(run).result == "done"


def test_a_turn_that_lost_its_run_saves_no_checkpoint_and_asks_nobody(clock, no_worker):
    run = saves_and_asks.start()
    in_the_middle.append(lambda: lease_ends(clock))
    advance("default")
    assert again(run).status == Run.Status.PENDING
    assert not StepCheckpoint.objects.exists()
    assert not run.hooks.exists()


@pytest.mark.parametrize("definition", [three_steps, three_steps_async])
def test_a_run_cancelled_while_it_is_worked_on_stays_cancelled(definition, no_worker):
    run = definition.start()
    in_the_middle.append(lambda: cancel_run(run))
    advance("default")
    assert again(run).status == Run.Status.CANCELLED
    assert did == ["first", "middle"]
    assert calls_of(run, Event.Type.STEP_COMPLETED) == ["first:1"]


def test_a_run_cancelled_before_it_is_found_that_its_workflow_is_gone(no_worker, monkeypatch, settings):
    settings.STEPHOOKS = {**settings.STEPHOOKS, "DEPLOY_GRACE": 0}
    run = three_steps.start()
    Run.objects.filter(pk=run.pk).update(workflow="gone")
    fail = store.fail

    def cancelled_meanwhile(*args: Any, **kwargs: Any) -> None:
        cancel_run(run)
        fail(*args, **kwargs)

    monkeypatch.setattr(store, "fail", cancelled_meanwhile)
    advance("default")
    assert again(run).status == Run.Status.CANCELLED


# --- recovery ---------------------------------------------------------------------------------------------


class PowerCut(BaseException):
    pass


def cut_power() -> None:
    raise PowerCut


@pytest.fixture
def crash(monkeypatch: pytest.MonkeyPatch, no_worker: None, clock: Any) -> Any:
    """Make a turn that dies in the middle step, writing nothing more; then its lease ends."""

    def crash() -> None:
        in_the_middle[:] = [cut_power]
        with monkeypatch.context() as patch:
            patch.setattr(store, "hand_back", lambda *args, **kwargs: None)
            with pytest.raises(PowerCut):
                advance("default")
        lease_ends(clock)

    return crash


@workflow(max_recoveries=1)
def recovered_once() -> str:
    return three_steps.function()


def test_max_recoveries_1_means_two_turns(crash):
    run = recovered_once.start()
    crash()
    assert again(run).status == Run.Status.PENDING
    crash()
    assert again(run).status == Run.Status.FAILED
    assert run.error["type"] == "django_stephooks.exceptions:RunLostError"
    assert "max_recoveries=1" in run.error["message"]
    assert did == ["first", "middle", "middle"], "a recorded step is not run again"

    retry_run(run)
    crash()
    assert again(run).status == Run.Status.PENDING, "a retried run is recovered anew"
    advance("default")
    assert again(run).result == "done"


@workflow(max_recoveries=1)
def crashes_before_and_after_the_answer() -> Any:
    middle()
    answered = step_hook("approve")
    another_middle()
    return answered


@step
def another_middle() -> None:
    middle.function()


def test_only_crashes_in_a_row_count(crash):
    run = crashes_before_and_after_the_answer.start()
    crash()
    advance("default")
    assert again(run).status == Run.Status.SUSPENDED
    assert run.recoveries == 0
    answer(run)
    crash()
    assert again(run).status == Run.Status.PENDING
    advance("default")
    assert again(run).result == "yes"


@pytest.mark.parametrize("error", [OperationalError("server closed the connection"), DatabaseError("odd")])
def test_a_database_error_in_a_turn_gives_the_run_to_the_sweep(error, no_worker, clock, monkeypatch):
    run = three_steps.start()
    record = store.record
    failures = [error]

    def fails_once(*args: Any, **kwargs: Any) -> None:
        if did == ["first", "middle"] and failures:
            raise failures.pop()
        record(*args, **kwargs)

    monkeypatch.setattr(store, "record", fails_once)
    advance("default")
    if isinstance(error, OperationalError):
        assert again(run).status == Run.Status.RUNNING
        clock.advance("1s")
        sweep()
        advance("default")
        assert again(run).result == "done"
        assert did == ["first", "middle", "middle", "last"]
        assert again(run).recoveries == 1
    else:
        assert again(run).status == Run.Status.FAILED
        assert "odd" in run.error["message"]


# --- told to stop -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("definition", [three_steps, three_steps_async])
@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_a_process_told_to_stop_hands_the_run_back_at_once(stop, definition, no_worker):
    run = definition.start()

    def raise_it() -> None:
        raise stop

    in_the_middle.append(raise_it)
    with pytest.raises(stop):
        advance("default")
    assert again(run).status == Run.Status.PENDING
    assert run.recoveries == 0
    assert run.due_at <= timezone.now()
    advance("default")
    assert again(run).result == "done"
    assert did == ["first", "middle", "middle", "last"]


@step
async def stops_in_async_code() -> str:
    did.append("async")
    if len(did) == 1:
        raise SystemExit
    return await aio.once("key", lambda: "done")


def test_and_from_inside_async_code(no_worker):
    run = stops_in_async_code.start()
    with pytest.raises(SystemExit):
        advance("default")
    assert again(run).status == Run.Status.PENDING
    advance("default")
    assert again(run).result == "done"


def test_the_same_bell_twice_makes_one_turn(no_worker):
    run = three_steps.start()
    in_the_middle.append(lambda: did.append(advance("default")))
    advance("default")
    assert did == ["first", "middle", None, "last"]
    assert advance("default") is None
    assert again(run).turn == 1
