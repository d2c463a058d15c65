"""Time limits that are really enforced, on code that sleeps, that spins, and that does not want to stop."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections

from django_stephooks import once, retry_run, save_step_checkpoint, step, workflow
from django_stephooks.engine import store
from django_stephooks.engine.limits import TimeUp, _shield, shielded, time_limit
from django_stephooks.engine.worker import advance
from django_stephooks.exceptions import StepTimeoutError
from django_stephooks.models import Event, Run, StepCheckpoint

from .watching import again, calls_of, did, later

pytestmark = pytest.mark.django_db(transaction=True)

LONG = 20.0


def spin() -> None:
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        pass
    did.append("spun to the end")


def doze() -> None:
    # In slices: in a thread that is not the main one, a limit comes between two of them.
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        time.sleep(0.02)
    did.append("slept to the end")


def swallow_exceptions() -> None:
    for _ in range(2):
        try:
            doze()
        except Exception:  # noqa: BLE001
            did.append("swallowed")


def swallow_everything() -> None:
    try:
        doze()
    except:  # noqa: E722
        did.append("swallowed")


def return_from_finally() -> None:
    try:
        doze()
    finally:
        return  # noqa: B012


def raise_something_else() -> None:
    try:
        doze()
    except BaseException:  # noqa: BLE001
        raise LookupError("something else") from None


CODE = {
    function.__name__: function
    for function in (
        spin,
        doze,
        swallow_exceptions,
        swallow_everything,
        return_from_finally,
        raise_something_else,
    )
}


@step(timeout="100ms", max_retries=0)
def limited(what: str) -> None:
    did.append("began")
    CODE[what]()


@pytest.fixture
def in_a_thread(no_worker: None) -> Callable[[], None]:
    """A worker that makes its turns outside the main thread."""

    def work() -> None:
        def body() -> None:
            try:
                while advance("default"):
                    pass
            finally:
                connections.close_all()

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()

    return work


@pytest.mark.parametrize("what", CODE)
def test_a_step_that_is_over_its_time_fails_in_the_main_thread(what):
    run = again(limited.start(what))
    assert run.status == Run.Status.FAILED
    assert run.error["type"] == "django_stephooks.exceptions:StepTimeoutError"
    assert run.error["message"] == (
        f"Step 'limited:1' of run {run.pk} took longer than its timeout of 0:00:00.100000."
    )
    assert "to the end" not in " ".join(did)


@pytest.mark.parametrize("what", CODE)
def test_and_in_any_other_thread(what, in_a_thread):
    run = limited.start(what)
    in_a_thread()
    assert again(run).status == Run.Status.FAILED
    assert run.error["type"] == "django_stephooks.exceptions:StepTimeoutError"
    assert "to the end" not in " ".join(did)


async def await_long() -> None:
    await asyncio.sleep(LONG)
    did.append("slept to the end")


async def await_and_swallow() -> str:
    try:
        await asyncio.sleep(LONG)
    except BaseException:  # noqa: BLE001
        did.append("swallowed")
    return "done"


async def await_and_raise_something_else() -> None:
    try:
        await asyncio.sleep(LONG)
    except BaseException:  # noqa: BLE001
        raise LookupError("something else") from None


async def await_tasks() -> None:
    await asyncio.gather(await_long(), await_long())


@step(timeout="100ms", max_retries=0)
def inner_plain() -> None:
    doze()


ASYNC_CODE = {
    function.__name__: function
    for function in (
        await_long,
        await_and_swallow,
        await_and_raise_something_else,
        await_tasks,
    )
}


@step(timeout="100ms", max_retries=0)
async def limited_async(what: str) -> Any:
    return await ASYNC_CODE[what]()


@workflow
def plain_workflow(what: str) -> Any:
    return async_to_sync(limited_async)(what)


@workflow
async def async_workflow(what: str) -> Any:
    return await limited_async(what)


@pytest.mark.parametrize("definition", [limited_async, plain_workflow, async_workflow])
@pytest.mark.parametrize("what", ASYNC_CODE)
def test_and_in_async_code(what, definition):
    run = again(definition.start(what))
    assert run.status == Run.Status.FAILED
    assert run.error["type"] == "django_stephooks.exceptions:StepTimeoutError", run.error
    assert "slept to the end" not in did


@step(max_retries=0)
async def raises_a_timeout_of_its_own() -> None:
    async with asyncio.timeout(0.01):
        await asyncio.sleep(LONG)


def test_a_timeout_of_the_codes_own_stays_its_own():
    run = again(raises_a_timeout_of_its_own.start())
    assert run.error["type"] == "builtins:TimeoutError"


@workflow
async def plain_step_in_async_code() -> None:
    await sync_to_async(inner_plain)()


def test_a_plain_step_in_async_code_has_its_limit_too():
    run = again(plain_step_in_async_code.start())
    assert run.error["type"] == "django_stephooks.exceptions:StepTimeoutError"
    assert "slept to the end" not in did


# --- limits within limits ----------------------------------------------------------------------------


@step(timeout="100ms", max_retries=0)
def outer_short() -> None:
    inner_long()


@step(timeout="1h", max_retries=0)
def inner_long() -> None:
    doze()


@workflow
def short_around_long() -> None:
    outer_short()


@step(timeout="1h", max_retries=0)
def outer_long() -> str:
    with contextlib.suppress(StepTimeoutError):
        inner_plain()
    with contextlib.suppress(StepTimeoutError):
        inner_plain()
    return "went on"


@workflow
def long_around_short() -> str:
    return outer_long()


@workflow(job_timeout="300ms")
def short_job() -> None:
    with contextlib.suppress(StepTimeoutError):
        inner_plain()
    inner_long()


def test_the_limit_of_the_outer_step_ends_the_inner_one(in_a_thread):
    for work in (lambda: advance("default"), in_a_thread):
        run = short_around_long.start()
        work()
        assert again(run).status == Run.Status.FAILED
        assert "Step 'outer_short:1'" in run.error["message"]
        assert calls_of(run, Event.Type.STEP_FAILED) == ["outer_short:1"]


def test_the_limit_of_an_inner_step_leaves_the_outer_one_going(in_a_thread):
    for work in (lambda: advance("default"), in_a_thread):
        run = long_around_short.start()
        work()
        assert again(run).result == "went on"
        assert calls_of(run, Event.Type.STEP_FAILED) == [
            "outer_long:1/inner_plain:1",
            "outer_long:1/inner_plain:2",
        ]


def test_the_job_timeout_goes_on_counting_behind_an_inner_limit(in_a_thread):
    for work in (lambda: advance("default"), in_a_thread):
        run = short_job.start()
        work()
        assert again(run).status == Run.Status.FAILED
        assert run.error["type"] == "django_stephooks.exceptions:TurnTimeoutError"
        assert f"Run {run.pk}" in run.error["message"]
        assert "job_timeout of 0:00:00.300000" in run.error["message"]


@pytest.mark.parametrize("swallow", [False, True])
def test_the_nearest_limit_counts_even_if_the_inner_code_swallows_it(swallow):
    def inner() -> str:
        try:
            doze()
        except TimeUp:
            if not swallow:
                raise
        return "swallowed"

    with (
        pytest.raises(StepTimeoutError, match="outer"),
        time_limit(0.1, lambda: StepTimeoutError("outer")),
        time_limit(3600, lambda: StepTimeoutError("inner")),
    ):
        inner()


@workflow(job_timeout="200ms")
async def async_job() -> None:
    await await_long()


@workflow(job_timeout="200ms")
async def async_job_that_swallows() -> str:
    return await await_and_swallow()


@workflow(job_timeout="200ms")
def plain_job_that_swallows() -> None:
    swallow_everything()


@pytest.mark.parametrize("definition", [async_job, async_job_that_swallows, plain_job_that_swallows])
def test_the_job_timeout_is_enforced_everywhere(definition):
    run = again(definition.start())
    assert run.status == Run.Status.FAILED
    assert run.error["type"] == "django_stephooks.exceptions:TurnTimeoutError"


@step(timeout="100ms", max_retries=1, retry_delay="1m")
def slow_at_first() -> str:
    did.append("attempt")
    if did.count("attempt") == 1:
        doze()
    return "quick"


def test_an_attempt_that_took_too_long_is_tried_again(clock):
    run = slow_at_first.start()
    assert again(run).status == Run.Status.SUSPENDED
    later(clock, "1m", run)
    assert run.result == "quick"


@workflow(job_timeout="200ms")
def over_time_in_a_step() -> None:
    once("first", did.append, "first")
    never_retried()


@step(max_retries=0)
def never_retried() -> None:
    doze()


def test_a_turn_that_was_over_its_time_keeps_what_it_recorded_and_can_be_retried():
    run = again(over_time_in_a_step.start())
    assert run.status == Run.Status.FAILED
    retry_run(run)
    assert again(run).status == Run.Status.FAILED
    assert did == ["first"]


# --- a limit never hits a write --------------------------------------------------------------------


@step(timeout="150ms", max_retries=0)
def saves_while_its_time_ends(pause: float) -> None:
    save_step_checkpoint("whole")
    did.append("went on")
    doze()


@pytest.mark.parametrize("main_thread", [True, False])
def test_a_limit_that_ends_during_a_write_waits_for_it(main_thread, in_a_thread, monkeypatch):
    save = store.save_checkpoint

    def slow_save(*args: Any, **kwargs: Any) -> None:
        time.sleep(0.3)
        save(*args, **kwargs)

    monkeypatch.setattr(store, "save_checkpoint", slow_save)
    run = saves_while_its_time_ends.start(0)
    advance("default") if main_thread else in_a_thread()
    assert again(run).error["type"] == "django_stephooks.exceptions:StepTimeoutError"
    assert StepCheckpoint.objects.get(run=run).data == "whole"
    assert did == []


def test_a_limit_that_ended_during_a_write_that_failed_hits_no_later_turn():
    with pytest.raises(StepTimeoutError), time_limit(0.05, lambda: StepTimeoutError("late")), shielded():
        time.sleep(0.1)
        raise ValueError("the write failed")
    assert not _shield.missed
    with shielded():
        pass


def test_a_limit_outside_the_main_thread_leaves_an_interpreter_that_can_be_traced():
    """Taking an asynchronous exception back makes CPython 3.11 loop for ever once something traces."""
    program = """
import sys, threading, time
from django_stephooks.engine.limits import time_limit

def trace(*args):
    return trace

def limited():
    for swallow in (False, True):
        try:
            with time_limit(0.05, lambda: ValueError("over")):
                end = time.monotonic() + 0.2
                while time.monotonic() < end:
                    try:
                        time.sleep(0.001)
                    except BaseException:
                        if not swallow:
                            raise
        except ValueError as error:
            print(error)

def work():
    print(len([str(number) for number in range(20_000)]))

for target in (limited, work, work):
    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
    threading.settrace(trace)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["over", "over", "20000", "20000"]
