"""A suspension can not be swallowed: whatever the code does, the run waits, and is asked once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from django_stephooks import (
    aio,
    delete_step_checkpoint,
    load_step_checkpoint,
    once,
    save_step_checkpoint,
    sleep,
    step,
    step_hook,
    workflow,
)
from django_stephooks.engine.worker import advance
from django_stephooks.models import Event, Hook, Run, StepCheckpoint
from tests.app.models import Article

from .watching import again, answer, calls_of, data_of, did, events_of, later

pytestmark = pytest.mark.django_db(transaction=True)

Ask = Callable[[], Any]


def ask_by_hook() -> Any:
    return step_hook("approve")


def ask_and_tell() -> Any:
    return step_hook("approve", on_created=lambda token: did.append("told"))


def ask_in_a_nested_step() -> Any:
    return nested_ask()


@step(max_retries=5, retry_delay=0)
def nested_ask() -> Any:
    return step_hook("approve")


def except_exception(ask: Ask) -> Any:
    """An agent framework's error middleware."""
    try:
        return ask()
    except Exception as error:  # noqa: BLE001
        did.append("caught")
        return f"tool failed: {error}"


def bare_except(ask: Ask) -> Any:
    try:
        return ask()
    except:  # noqa: E722
        return "swallowed"


def finally_return(ask: Ask) -> Any:
    try:
        return ask()
    finally:
        if not did or did[-1] != "answered":
            return "swallowed"  # noqa: B012


def retry_decorator(ask: Ask) -> Any:
    for _ in range(3):
        try:
            return ask()
        except Exception:  # noqa: BLE001
            did.append("caught")
    return "gave up"


def stubborn_retry_decorator(ask: Ask) -> Any:
    for _ in range(3):
        with contextlib.suppress(BaseException):
            return ask()
    return "gave up"


def suppress_everything(ask: Ask) -> Any:
    with contextlib.suppress(BaseException):
        return ask()
    return "swallowed"


def raise_something_else(ask: Ask) -> Any:
    try:
        return ask()
    except BaseException:  # noqa: BLE001
        raise LookupError("instead") from None


def goes_on_working(ask: Ask) -> Any:
    """Each later durable call raises the signal again."""
    with contextlib.suppress(BaseException):
        return ask()
    for call in (
        lambda: work("a step"),
        lambda: once("key", did.append, "a once"),
        lambda: step_hook("another"),
        lambda: sleep("1m"),
        ask_in_a_nested_step,
        ask,
    ):
        with contextlib.suppress(BaseException):
            call()
            did.append("a durable call returned")
    with contextlib.suppress(BaseException):
        save_step_checkpoint("after the signal")
    with contextlib.suppress(BaseException):
        delete_step_checkpoint()
    return "swallowed"


@step
def work(what: str) -> None:
    did.append(what)


ASKING = {f.__name__: f for f in (ask_by_hook, ask_and_tell, ask_in_a_nested_step)}
SWALLOWING = {
    f.__name__: f
    for f in (
        except_exception,
        bare_except,
        retry_decorator,
        stubborn_retry_decorator,
        suppress_everything,
        raise_something_else,
        goes_on_working,
    )
}


@step(max_retries=5, retry_delay=0)
def swallowing_step(swallowing: str, asking: str) -> Any:
    if load_step_checkpoint() is None:
        save_step_checkpoint("before the signal")
    return SWALLOWING[swallowing](ASKING[asking])


@workflow
def with_a_swallowing_step(swallowing: str, asking: str) -> Any:
    return swallowing_step(swallowing, asking)


@workflow
def swallowing_workflow(swallowing: str, asking: str) -> Any:
    if load_step_checkpoint() is None:
        save_step_checkpoint("before the signal")
    return SWALLOWING[swallowing](ASKING[asking])


LETS_THROUGH = ("except_exception", "retry_decorator")


@pytest.mark.parametrize("definition", [swallowing_step, with_a_swallowing_step, swallowing_workflow])
@pytest.mark.parametrize("asking", ASKING)
@pytest.mark.parametrize("swallowing", SWALLOWING)
def test_it_waits_all_the_same_and_goes_on_with_the_answer(swallowing, asking, definition):
    run = again(definition.start(swallowing, asking))

    assert run.status == Run.Status.SUSPENDED, run.error
    assert [hook.name for hook in Hook.objects.filter(run=run)] == ["approve"]
    assert StepCheckpoint.objects.get(run=run).data == "before the signal"
    assert set(did) <= {"told"}
    assert run.recoveries == 0
    (suspended,) = data_of(run, Event.Type.RUN_SUSPENDED)
    assert suspended["waits_for"] == [Hook.objects.get(run=run).call]
    warned = calls_of(run, Event.Type.STEP_WARNED)
    assert bool(warned) == (swallowing not in LETS_THROUGH)
    assert not {"step_completed", "step_failed", "step_retrying"} & set(events_of(run))

    answer(run, {"ok": True})

    assert run.status == Run.Status.COMPLETED, run.error
    assert run.result == {"ok": True}
    assert did.count("told") <= 1
    assert not {"step_failed", "step_retrying"} & set(events_of(run))


@step
def returns_from_finally() -> Any:
    try:
        return step_hook("approve")
    finally:
        return "swallowed"  # noqa: B012, SIM107


def test_return_in_finally_still_waits():
    """It drops the answer too, which is the code's own business: it did read it."""
    run = again(returns_from_finally.start())
    assert run.status == Run.Status.SUSPENDED
    assert calls_of(run, Event.Type.STEP_WARNED) == ["returns_from_finally:1"]
    answer(run)
    assert run.result == "swallowed"


@workflow
def swallows_timers() -> Any:
    with contextlib.suppress(BaseException):
        sleep("1h")
    did.append("behind the timer")
    return "done"


def test_a_timer_can_not_be_swallowed(clock):
    run = again(swallows_timers.start())
    assert run.status == Run.Status.SUSPENDED
    later(clock, "1h", run)
    assert run.result == "done"


@step(max_retries=1, retry_delay="1h")
def fails_at_first() -> str:
    did.append("attempt")
    if did.count("attempt") == 1:
        raise ValueError
    return "second attempt"


@workflow
def swallows_a_retry() -> Any:
    with contextlib.suppress(BaseException):
        return fails_at_first()
    return "swallowed"


def test_a_retry_that_waits_can_not_be_swallowed(clock):
    run = again(swallows_a_retry.start())
    assert run.status == Run.Status.SUSPENDED
    later(clock, "1h", run)
    assert run.result == "second attempt"


# --- async code ----------------------------------------------------------------------------------------


async def aask() -> Any:
    return await aio.step_hook("approve")


async def abare(ask: Any) -> Any:
    try:
        return await ask()
    except:  # noqa: E722
        return "swallowed"


async def awrapped_in_a_task(ask: Any) -> Any:
    try:
        return await asyncio.create_task(ask())
    except BaseException:  # noqa: BLE001
        return "swallowed"


async def awith_a_time_limit_of_its_own(ask: Any) -> Any:
    with contextlib.suppress(BaseException):
        return await asyncio.wait_for(ask(), timeout=30)
    return "swallowed"


async def agathered(ask: Any) -> Any:
    (result,) = await asyncio.gather(ask(), return_exceptions=True)
    return result


async def agoes_on_in_new_tasks(ask: Any) -> Any:
    with contextlib.suppress(BaseException):
        return await ask()
    results = await asyncio.gather(
        awork("in a new task"),
        aio.once("key", did.append, "in a new task"),
        aio.step_hook("another"),
        return_exceptions=True,
    )
    return [str(result) for result in results]


@step
async def awork(what: str) -> None:
    did.append(what)


ASWALLOWING = {
    f.__name__: f
    for f in (
        abare,
        awrapped_in_a_task,
        awith_a_time_limit_of_its_own,
        agathered,
        agoes_on_in_new_tasks,
    )
}


@step(max_retries=5, retry_delay=0)
async def aswallowing_step(swallowing: str) -> Any:
    return await ASWALLOWING[swallowing](aask)


@workflow
async def aswallowing_workflow(swallowing: str) -> Any:
    return await ASWALLOWING[swallowing](aask)


@workflow
def plain_around_async(swallowing: str) -> Any:
    return async_to_sync(aswallowing_step)(swallowing)


@pytest.mark.parametrize("definition", [aswallowing_step, aswallowing_workflow, plain_around_async])
@pytest.mark.parametrize("swallowing", ASWALLOWING)
def test_nor_in_async_code(swallowing, definition):
    run = again(definition.start(swallowing))
    assert run.status == Run.Status.SUSPENDED, run.error
    assert [hook.name for hook in Hook.objects.filter(run=run)] == ["approve"]
    assert did == []
    assert Event.Type.STEP_WARNED in events_of(run)
    answer(run, {"ok": True})
    assert run.status == Run.Status.COMPLETED, run.error
    assert run.result == {"ok": True}
    assert did == []


# --- in a transaction ------------------------------------------------------------------------------------


@step(max_retries=0)
def asks_in_a_transaction() -> Any:
    with transaction.atomic():
        Article.objects.create(title="half done")
        return step_hook("approve")


@step(max_retries=0)
@transaction.atomic
def asks_in_a_decorated_transaction() -> Any:
    return step_hook("approve")


@step(max_retries=0)
def asks_without_retries() -> Any:
    return step_hook("approve")


@workflow
def asks_below_a_transaction() -> Any:
    with transaction.atomic():
        return asks_without_retries()


@pytest.mark.parametrize(
    "definition", [asks_in_a_transaction, asks_in_a_decorated_transaction, asks_below_a_transaction]
)
def test_asking_inside_a_transaction_is_refused_and_nothing_is_stored(definition):
    run = again(definition.start())
    assert run.status == Run.Status.FAILED
    assert "step_hook() was called inside transaction.atomic()" in run.error["message"]
    assert "approve:1" in run.error["message"]
    assert not Article.objects.exists()
    assert not Hook.objects.exists()


@step
def works_in_a_transaction_and_asks_after_it() -> Any:
    with transaction.atomic():
        Article.objects.create(title="whole")
    return step_hook("approve")


def test_asking_after_the_transaction_is_fine():
    run = works_in_a_transaction_and_asks_after_it.start()
    assert Article.objects.get().title == "whole"
    answer(run)
    assert run.result == "yes"


def test_a_turn_inside_a_transaction_of_its_caller_may_ask(no_worker):
    """Under TestCase everything runs inside a transaction; only blocks of the run's own count."""
    run = works_in_a_transaction_and_asks_after_it.start()
    with transaction.atomic():
        advance("default")
    assert again(run).status == Run.Status.SUSPENDED
