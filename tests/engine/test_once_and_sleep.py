"""`once` records a result inside a step; `sleep` waits without a worker."""

from __future__ import annotations

from typing import Any

import pytest

from django_stephooks import SerializationError, aio, once, sleep, step, step_hook, workflow
from django_stephooks.models import Event, Run
from django_stephooks.services.sweep import sweep

from .watching import again, answer, calls_of, did, later

pytestmark = pytest.mark.django_db(transaction=True)


def charge(amount: int, *, currency: str = "EUR") -> dict[str, Any]:
    did.append(f"{amount} {currency}")
    return {"charged": amount}


@step(max_retries=2, retry_delay=0)
def charges_and_asks(amount: int) -> Any:
    charged = once("charge", charge, amount, currency="USD")
    return [charged, step_hook("approve"), once("charge", charge, 0)]


@workflow
def two_calls_charge() -> Any:
    return [charges_and_asks(1), charges_and_asks(2), once("charge", charge, 3)]


def test_a_key_belongs_to_one_step_call_and_its_result_is_recorded():
    run = two_calls_charge.start()
    answer(run)
    answer(run)
    assert run.result == [
        [{"charged": 1}, "yes", {"charged": 1}],
        [{"charged": 2}, "yes", {"charged": 2}],
        {"charged": 3},
    ]
    assert did == ["1 USD", "2 USD", "3 EUR"]
    assert calls_of(run, Event.Type.ONCE_COMPLETED) == [
        "charges_and_asks:1/once[charge]",
        "charges_and_asks:2/once[charge]",
        "once[charge]",
    ]


@step(max_retries=2, retry_delay=0)
def fails_behind_it() -> Any:
    result = once("charge", charge, 1)
    did.append("attempt")
    if did.count("attempt") < 3:
        raise ValueError
    return result


def test_it_is_not_done_again_when_the_step_is_tried_again():
    assert again(fails_behind_it.start()).result == {"charged": 1}
    assert did.count("1 EUR") == 1
    assert did.count("attempt") == 3


def fails_at_first() -> str:
    did.append("call")
    if did.count("call") == 1:
        raise ValueError
    return "fine"


@step(max_retries=1, retry_delay=0)
def raises_inside() -> Any:
    return once("key", fails_at_first)


def test_what_raised_is_not_recorded():
    run = again(raises_inside.start())
    assert run.result == "fine"
    assert did == ["call", "call"]


@step
def returns_none() -> Any:
    once("nothing", did.append, "done")
    return step_hook("approve")


def test_none_is_a_result():
    answer(returns_none.start())
    assert did == ["done"]


@step(max_retries=0)
def can_not_be_stored() -> Any:
    return once("key", object)


def test_a_result_that_can_not_be_stored_is_named_by_its_key():
    run = again(can_not_be_stored.start())
    assert run.error["type"] == f"{SerializationError.__module__}:SerializationError"
    assert "once[key]" in run.error["message"]


@step(max_retries=0)
def nonsense_key(key: Any) -> Any:
    return once(key, charge, 1)


@pytest.mark.parametrize("key", ["", "a/b", "x" * 101, 5, "new\nline"])
def test_a_key_that_is_no_name_is_refused(key):
    run = again(nonsense_key.start(key))
    assert run.status == Run.Status.FAILED
    assert "can not be a key" in run.error["message"]
    assert did == []


@step(max_retries=0)
def inside_itself() -> Any:
    return once("key", lambda: once("key", charge, 1))


def test_inside_itself_it_is_refused():
    run = again(inside_itself.start())
    assert run.status == Run.Status.FAILED
    assert "inside the function that once('key') calls" in run.error["message"]
    assert did == []


async def acharge(amount: int) -> int:
    did.append(amount)
    return amount


@step
async def async_once() -> Any:
    plain = await aio.once("plain", charge, 1)
    awaited = await aio.once("awaited", acharge, 2)
    return [plain, awaited, await aio.step_hook("approve")]


def test_in_async_code_the_function_may_be_of_either_kind():
    run = async_once.start()
    answer(run)
    assert run.result == [{"charged": 1}, 2, "yes"]
    assert did == ["1 EUR", 2]


# --- sleep -----------------------------------------------------------------------------------------------


@step
def naps() -> str:
    did.append("naps")
    sleep("1h")
    did.append("awake")
    sleep(90)
    return "rested"


@workflow
def workflow_naps() -> Any:
    return [naps(), sleep("1d")]


@workflow
async def async_naps() -> Any:
    await aio.sleep("1h")
    await aio.sleep(90)
    return "rested"


@pytest.mark.parametrize("definition", [naps, async_naps])
def test_it_sleeps_until_the_sweep_wakes_it_and_no_longer(definition, clock):
    run = again(definition.start())
    assert run.status == Run.Status.SUSPENDED
    assert (run.due_at - clock.now).total_seconds() == 3600
    later(clock, "59m", run)
    assert run.status == Run.Status.SUSPENDED
    later(clock, "1m", run)
    assert (run.due_at - clock.now).total_seconds() == 90
    later(clock, "90s", run)
    assert run.result == "rested"
    assert did.count("awake") <= 2


def test_the_time_is_fixed_when_the_code_first_comes_there(clock):
    run = again(workflow_naps.start())
    due_at = run.due_at
    clock.advance("10m")
    Run.objects.filter(pk=run.pk).make_ready(clock.now)
    clock.advance("1m")
    sweep()
    assert again(run).due_at == due_at
    assert calls_of(run, Event.Type.TIMER_STARTED) == ["naps:1/sleep:1"]
    later(clock, "49m", run)
    assert did.count("awake") == 1


@step(max_retries=0)
def nonsense() -> None:
    sleep(0)


def test_nonsense_is_refused():
    run = again(nonsense.start())
    assert run.status == Run.Status.FAILED
    assert run.error["message"].startswith("sleep: 0 is no time at all")
