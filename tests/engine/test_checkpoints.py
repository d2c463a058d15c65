"""Checkpoints: one per step call, stored when saved, gone when deleted or when the step completes."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync

from django_stephooks import (
    SerializationError,
    aio,
    delete_step_checkpoint,
    load_step_checkpoint,
    once,
    retry_run,
    save_step_checkpoint,
    step,
    step_hook,
    workflow,
)
from django_stephooks.engine.worker import advance
from django_stephooks.models import Run, StepCheckpoint
from django_stephooks.services.sweep import sweep

from .watching import again, answer, did, later

pytestmark = pytest.mark.django_db(transaction=True)


def stored() -> dict[str, Any]:
    return dict(StepCheckpoint.objects.values_list("call", "data"))


@step
def saves_and_asks(name: str = "a") -> Any:
    before = load_step_checkpoint()
    if before is None:
        save_step_checkpoint({"saved by": name})
    answered = step_hook("approve")
    return [before, load_step_checkpoint(), answered]


@workflow
def two_calls_save() -> Any:
    return [saves_and_asks("first"), saves_and_asks("second")]


def test_each_call_has_its_own_until_it_completes():
    run = two_calls_save.start()
    assert stored() == {"saves_and_asks:1": {"saved by": "first"}}
    answer(run)
    assert stored() == {"saves_and_asks:2": {"saved by": "second"}}
    answer(run)
    assert run.result == [[{"saved by": name}, {"saved by": name}, "yes"] for name in ("first", "second")]
    assert stored() == {}


@step
def overwrites() -> Any:
    seen = [load_step_checkpoint()]
    for number in range(3):
        save_step_checkpoint(number)
        seen.append(load_step_checkpoint())
    step_hook("approve")
    return seen


def test_saving_overwrites_and_is_seen_at_once():
    run = overwrites.start()
    assert stored() == {"overwrites:1": 2}
    answer(run)
    assert run.result == [2, 0, 1, 2]


@step
async def async_overwrites() -> Any:
    seen = [await aio.load_step_checkpoint()]
    await aio.save_step_checkpoint({"a": 1})
    seen.append(await aio.load_step_checkpoint())
    await aio.delete_step_checkpoint()
    seen.append(await aio.load_step_checkpoint())
    await aio.save_step_checkpoint({"b": 2})
    await aio.step_hook("approve")
    return seen


def test_and_in_async_code():
    run = async_overwrites.start()
    assert stored() == {"async_overwrites:1": {"b": 2}}
    answer(run)
    assert run.result == [{"b": 2}, {"a": 1}, None]


@step
def changes_what_it_loaded() -> Any:
    mine = {"list": [1]}
    save_step_checkpoint(mine)
    mine["list"].append(2)
    loaded = load_step_checkpoint()
    loaded["list"].append(3)
    again = load_step_checkpoint()
    step_hook("approve")
    return again


def test_changing_what_was_saved_or_loaded_changes_nothing_that_is_stored():
    run = changes_what_it_loaded.start()
    assert stored() == {"changes_what_it_loaded:1": {"list": [1]}}
    answer(run)
    assert run.result == {"list": [1]}


@step
def saves_a_falsy_value(value: Any) -> Any:
    save_step_checkpoint(value)
    step_hook("approve")
    return [load_step_checkpoint()]


@pytest.mark.parametrize("value", [False, 0, "", [], {}])
def test_a_falsy_checkpoint_is_one(value):
    run = saves_a_falsy_value.start(value)
    assert stored() == {"saves_a_falsy_value:1": value}
    answer(run)
    assert run.result == [value]


@step(max_retries=0)
def saves_what_can_not_be_stored() -> Any:
    save_step_checkpoint({"kept": True})
    try:
        save_step_checkpoint({"state": {"user": object()}})
    except SerializationError as error:
        did.append(str(error))
    step_hook("approve")


def test_a_value_that_can_not_be_stored_is_refused_when_it_is_saved_and_the_old_one_stays():
    saves_what_can_not_be_stored.start()
    assert "checkpoint.state.user" in did[0]
    assert stored() == {"saves_what_can_not_be_stored:1": {"kept": True}}


@step
def saves_too_much() -> None:
    save_step_checkpoint("x" * 2000)


def test_a_checkpoint_over_the_cap_is_refused(settings):
    settings.STEPHOOKS = {**settings.STEPHOOKS, "MAX_CHECKPOINT_BYTES": 1000}
    run = again(saves_too_much.start())
    assert run.status == Run.Status.FAILED
    assert "MAX_CHECKPOINT_BYTES" in run.error["message"]
    assert stored() == {}


# --- attempts ----------------------------------------------------------------------------------------


@step(max_retries=1, retry_delay=0)
def saves_and_fails_at_first() -> Any:
    did.append(load_step_checkpoint())
    if len(did) == 1:
        save_step_checkpoint("from the first attempt")
        raise ValueError
    return "done"


@step(max_retries=1, retry_delay="1m")
def saves_and_fails_at_first_and_waits() -> Any:
    return saves_and_fails_at_first.function()


@pytest.mark.parametrize("definition", [saves_and_fails_at_first, saves_and_fails_at_first_and_waits])
def test_the_next_attempt_finds_what_the_last_one_saved(definition, clock):
    later(clock, "1m", definition.start())
    assert did == [None, "from the first attempt"]
    assert stored() == {}


@step(max_retries=1, retry_delay=0)
def deletes_and_fails_at_first() -> Any:
    did.append(load_step_checkpoint())
    if len(did) == 1:
        save_step_checkpoint("from the first attempt")
        delete_step_checkpoint()
        raise ValueError


@step(max_retries=1, retry_delay="1m")
def deletes_and_fails_at_first_and_waits() -> Any:
    return deletes_and_fails_at_first.function()


@pytest.mark.parametrize("definition", [deletes_and_fails_at_first, deletes_and_fails_at_first_and_waits])
def test_the_next_attempt_does_not_find_what_the_last_one_deleted(definition, clock):
    later(clock, "1m", definition.start())
    assert did == [None, None]


@step(max_retries=0)
def deletes_and_fails() -> Any:
    did.append(load_step_checkpoint())
    save_step_checkpoint("x")
    delete_step_checkpoint()
    raise ValueError


@workflow
def fails_below() -> None:
    deletes_and_fails()


@workflow
def workflow_that_deletes_and_fails() -> None:
    deletes_and_fails.function()


@pytest.mark.parametrize("definition", [deletes_and_fails, fails_below, workflow_that_deletes_and_fails])
def test_a_retried_run_does_not_find_what_was_deleted_before_it_failed(definition):
    run = again(definition.start())
    assert run.status == Run.Status.FAILED
    assert stored() == {}
    retry_run(run)
    assert did == [None, None]


@step(max_retries=0)
def saves_and_fails() -> Any:
    did.append(load_step_checkpoint())
    save_step_checkpoint("kept")
    raise ValueError


def test_a_retried_run_finds_what_was_saved_before_it_failed():
    retry_run(saves_and_fails.start())
    assert did == [None, "kept"]


# --- deleting ----------------------------------------------------------------------------------------


class Killed(BaseException):
    pass


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch, no_worker: None, clock: Any) -> Any:
    """Make a turn that ends in a kill, and make the run ready again as the sweep does."""
    from django_stephooks.engine import store

    def turn() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(store, "hand_back", lambda *args, **kwargs: None)
            with pytest.raises(Killed):
                advance("default")
        clock.advance("1h")
        sweep()

    return turn


@step
def finishes_and_is_killed() -> str:
    checkpoint = load_step_checkpoint()
    if checkpoint is None:
        did.append("expensive work")
        save_step_checkpoint("state")
    did.append("finishing")
    delete_step_checkpoint()
    assert load_step_checkpoint() is None
    if did.count("finishing") == 1:
        raise Killed
    return "done"


def test_a_crash_right_after_deleting_repeats_nothing(killed):
    run = finishes_and_is_killed.start()
    killed()
    advance("default")
    assert again(run).result == "done"
    assert did == ["expensive work", "finishing", "finishing"]
    assert stored() == {}


@step
def deletes_and_records_and_is_killed(what: str) -> str:
    save_step_checkpoint("state")
    delete_step_checkpoint()
    if what == "once":
        once("key", did.append, "recorded")
    else:
        note()
    raise Killed


@step
def note() -> None:
    did.append("recorded")


@pytest.mark.parametrize("what", ["once", "a step"])
def test_deleting_is_stored_together_with_the_next_event(what, killed):
    deletes_and_records_and_is_killed.start(what)
    killed()
    assert stored() == {}
    assert did == ["recorded"]


@step
def deletes_and_asks() -> None:
    save_step_checkpoint("state")
    delete_step_checkpoint()
    step_hook("approve")


def test_deleting_before_a_question_counts():
    deletes_and_asks.start()
    assert stored() == {}


@step
def deletes_in_finally() -> Any:
    if load_step_checkpoint() is None:
        did.append("expensive work")
        save_step_checkpoint("state")
    try:
        return step_hook("approve")
    finally:
        delete_step_checkpoint()


@step
def saves_in_finally() -> Any:
    save_step_checkpoint("before")
    try:
        return step_hook("approve")
    finally:
        save_step_checkpoint("after")


@step
async def async_deletes_in_finally() -> Any:
    if await aio.load_step_checkpoint() is None:
        did.append("expensive work")
        await aio.save_step_checkpoint("state")
    try:
        return await aio.step_hook("approve")
    finally:
        await aio.delete_step_checkpoint()


@pytest.mark.parametrize("definition", [deletes_in_finally, async_deletes_in_finally])
def test_deleting_on_the_way_out_of_a_suspension_changes_nothing(definition):
    run = definition.start()
    assert stored() == {f"{definition.call_name}:1": "state"}
    answer(run)
    assert run.result == "yes"
    assert did == ["expensive work"]
    assert stored() == {}


def test_saving_on_the_way_out_of_a_suspension_changes_nothing():
    saves_in_finally.start()
    assert stored() == {"saves_in_finally:1": "before"}


# --- the workflow's own, and outside a run ---------------------------------------------------------


@workflow
async def workflow_saves() -> Any:
    before = await aio.load_step_checkpoint()
    await aio.save_step_checkpoint("the workflow's own")
    await aio.step_hook("approve")
    return before


def test_a_workflow_may_save_one_of_its_own():
    run = workflow_saves.start()
    assert stored() == {"": "the workflow's own"}
    answer(run)
    assert run.result == "the workflow's own"
    assert stored() == {}


def test_a_step_called_outside_a_run_has_none():
    with pytest.raises(RuntimeError, match="outside a run"):
        deletes_in_finally()
    with pytest.raises(RuntimeError, match="outside a run"):
        async_to_sync(async_deletes_in_finally)()
