"""How calls in a run are named, and that each is recorded once and never made again."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async

from django_stephooks import (
    NotInRunError,
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
from django_stephooks.engine.frames import current_frame
from django_stephooks.engine.worker import advance
from django_stephooks.models import Event, Hook, Run

from .watching import again, answer, calls_of, did, events_of, later

pytestmark = pytest.mark.django_db(transaction=True)

STEPS = (Event.Type.STEP_STARTED, Event.Type.STEP_COMPLETED)


@step
def note(what: Any) -> Any:
    did.append(what)
    return {"noted": what}


@step(name="write it down")
def renamed(what: Any) -> Any:
    return note(what)


@step
async def anote(what: Any) -> Any:
    did.append(what)
    return {"noted": what}


@step
def outer(what: str) -> list[Any]:
    first = note(f"{what}, one")
    agreed = step_hook("agree")
    return [first, agreed, note(f"{what}, two")]


# --- names ---------------------------------------------------------------------------------------


@workflow
def name_everything() -> None:
    note(1)
    renamed(2)
    for number in (3, 4):
        note(number)
    outer("inside")
    once("charge", did.append, "charged")
    sleep("1m")
    step_hook("last", key="the-last")


def test_a_call_is_named_by_where_it_stands(clock):
    run = name_everything.start()
    answer(run)
    later(clock, "1h", run)
    answer(run)

    assert again(run).status == Run.Status.COMPLETED, run.error
    assert calls_of(run, Event.Type.STEP_COMPLETED) == [
        "note:1",
        "write it down:1/note:1",
        "write it down:1",
        "note:2",
        "note:3",
        "outer:1/note:1",
        "outer:1/note:2",
        "outer:1",
    ]
    assert calls_of(run, Event.Type.HOOK_CREATED) == ["outer:1/agree:1", "last[the-last]"]
    assert calls_of(run, Event.Type.ONCE_COMPLETED) == ["once[charge]"]
    assert calls_of(run, Event.Type.TIMER_STARTED) == ["sleep:1"]


@step
def ask_twice() -> list[Any]:
    return [step_hook("approve"), step_hook("approve")]


@workflow
def ask_in_a_loop_and_in_two_steps() -> list[Any]:
    return [*ask_twice(), *ask_twice(), *[step_hook("approve") for _ in range(2)]]


def test_hooks_of_one_name_are_questions_of_their_own():
    run = ask_in_a_loop_and_in_two_steps.start()
    asked = []
    for number in range(6):
        asked.append(Hook.objects.get(run=run, status="pending").call)
        answer(run, number)

    assert again(run).result == [0, 1, 2, 3, 4, 5]
    assert asked == [
        "ask_twice:1/approve:1",
        "ask_twice:1/approve:2",
        "ask_twice:2/approve:1",
        "ask_twice:2/approve:2",
        "approve:1",
        "approve:2",
    ]


@workflow
def very_long_key() -> None:
    for _ in range(6):
        note_deeper(5)


@step(name="n" * 100, max_retries=0)
def note_deeper(depth: int) -> None:
    if depth:
        note_deeper(depth - 1)


def test_a_call_name_too_long_to_store_is_refused_with_a_sentence():
    run = again(very_long_key.start())
    assert run.status == Run.Status.FAILED
    assert "is longer than 400 characters" in run.error["message"]


# --- recorded once -------------------------------------------------------------------------------


@workflow
def note_and_ask() -> list[Any]:
    before = [note("same"), note("same")]
    return [*before, step_hook("go on"), note("same")]


def test_the_same_step_with_the_same_arguments_runs_twice_and_is_never_run_again():
    run = note_and_ask.start()
    assert did == ["same", "same"]

    answer(run, "go")

    assert did == ["same", "same", "same"]
    assert run.result == [{"noted": "same"}, {"noted": "same"}, "go", {"noted": "same"}]


@workflow
def return_none_and_ask() -> Any:
    value = note_nothing()
    step_hook("go on")
    return [value]


@step
def note_nothing() -> None:
    did.append("nothing")


def test_a_step_that_returned_none_is_recorded_too():
    run = return_none_and_ask.start()
    answer(run)
    assert did == ["nothing"]
    assert run.result == [None]


def test_a_nested_step_is_recorded_by_itself_while_its_outer_step_waits():
    run = nest.start()
    assert did == ["nested, one"]
    answer(run, "agreed")
    assert did == ["nested, one", "nested, two"]
    assert run.result == [{"noted": "nested, one"}, "agreed", {"noted": "nested, two"}]


@workflow
def nest() -> Any:
    return outer("nested")


@workflow
def ask_inside_and_then_ask_again() -> list[Any]:
    return [ask_inside_twice(), step_hook("at last")]


@step
def ask_inside_twice() -> list[Any]:
    return [ask_once(), ask_once()]


@step
def ask_once() -> Any:
    return step_hook("inside")


def test_an_answer_inside_a_recorded_step_need_not_be_read_again():
    run = ask_inside_and_then_ask_again.start()
    for number in range(3):
        answer(run, number)
    assert run.status == Run.Status.COMPLETED, run.error
    assert run.result == [[0, 1], 2]


# --- steps on their own, and calls between the two kinds -------------------------------------------


def test_a_step_can_be_started_on_its_own():
    run = outer.start("alone")
    answer(run, "agreed")
    assert run.result == [{"noted": "alone, one"}, "agreed", {"noted": "alone, two"}]
    assert events_of(run, *STEPS) == [
        "step_started outer:1",
        "step_started outer:1/note:1",
        "step_completed outer:1/note:1",
        "step_started outer:1/note:2",
        "step_completed outer:1/note:2",
        "step_completed outer:1",
    ]


@workflow
async def async_workflow() -> list[Any]:
    awaited = await anote("async step")
    plain = await sync_to_async(note)("plain step")
    agreed = await aio.step_hook("agree")
    return [awaited, plain, agreed, await nested_async()]


@step
async def nested_async() -> Any:
    return [await anote("inner"), await aio.step_hook("inner"), await aio.once("x", anote_it, "once")]


async def anote_it(what: str) -> str:
    did.append(what)
    return what


def test_an_async_workflow_calls_steps_of_both_kinds():
    run = async_workflow.start()
    answer(run, 1)
    answer(run, 2)
    assert run.status == Run.Status.COMPLETED, run.error
    assert run.result == [
        {"noted": "async step"},
        {"noted": "plain step"},
        1,
        [{"noted": "inner"}, 2, "once"],
    ]
    assert did == ["async step", "plain step", "inner", "once"]


@step
def plain_step_calls_async() -> Any:
    return async_to_sync(anote)("through async_to_sync")


@workflow
async def async_calls_plain_calls_async() -> Any:
    return await sync_to_async(plain_step_calls_async)()


@workflow
def plain_calls_async() -> Any:
    return [plain_step_calls_async(), step_hook("go on"), plain_step_calls_async()]


def test_a_plain_workflow_calls_an_async_step_through_async_to_sync():
    run = plain_calls_async.start()
    answer(run, "go")
    assert run.status == Run.Status.COMPLETED, run.error
    assert did == ["through async_to_sync"] * 2
    assert calls_of(run, Event.Type.STEP_COMPLETED) == [
        "plain_step_calls_async:1/anote:1",
        "plain_step_calls_async:1",
        "plain_step_calls_async:2/anote:1",
        "plain_step_calls_async:2",
    ]


def test_an_async_step_below_a_plain_one_below_an_async_workflow():
    run = again(async_calls_plain_calls_async.start())
    assert run.status == Run.Status.COMPLETED, run.error
    assert calls_of(run, Event.Type.STEP_COMPLETED) == [
        "plain_step_calls_async:1/anote:1",
        "plain_step_calls_async:1",
    ]


def test_an_async_step_runs_on_its_own():
    run = nested_async.start()
    answer(run, "agreed")
    assert run.result == [{"noted": "inner"}, "agreed", "once"]
    assert did == ["inner", "once"]


@step
def with_all_kinds(first: int, /, *more: int, last: int = 0, **named: int) -> list[Any]:
    return [first, list(more), last, named]


def test_arguments_of_every_kind_arrive_as_they_were_given():
    run = again(with_all_kinds.start(1, 2, 3, last=4, other=5))
    assert run.result == [1, [2, 3], 4, {"other": 5}]


# --- outside a run, and in the wrong place ---------------------------------------------------------


def test_outside_a_run_a_step_is_a_plain_function():
    assert note("direct") == {"noted": "direct"}
    assert async_to_sync(anote)("direct") == {"noted": "direct"}
    assert with_all_kinds(1) == [1, [], 0, {}]
    assert not Event.objects.exists()


@pytest.mark.parametrize(
    "call",
    [
        lambda: step_hook("approve"),
        lambda: save_step_checkpoint(1),
        load_step_checkpoint,
        delete_step_checkpoint,
        lambda: once("key", note, 1),
        lambda: sleep("1m"),
        lambda: async_to_sync(aio.step_hook)("approve"),
        lambda: async_to_sync(aio.save_step_checkpoint)(1),
        lambda: async_to_sync(aio.load_step_checkpoint)(),
        lambda: async_to_sync(aio.delete_step_checkpoint)(),
        lambda: async_to_sync(aio.once)("key", anote_it, "x"),
        lambda: async_to_sync(aio.sleep)("1m"),
    ],
)
def test_outside_a_run_durable_calls_say_so(call):
    with pytest.raises(NotInRunError, match="was called outside a run"):
        call()
    assert issubclass(NotInRunError, RuntimeError)
    assert did == []


@step(max_retries=0)
async def plain_call_in_async_code(which: str) -> None:
    {
        "step_hook": lambda: step_hook("approve"),
        "note": lambda: note("never"),
        "once": lambda: once("key", did.append, "never"),
        "save_step_checkpoint": lambda: save_step_checkpoint(1),
        "load_step_checkpoint": load_step_checkpoint,
    }[which]()


@pytest.mark.parametrize(
    "which", ["step_hook", "note", "once", "save_step_checkpoint", "load_step_checkpoint"]
)
def test_a_plain_durable_call_in_async_code_says_what_to_do(which):
    run = again(plain_call_in_async_code.start(which))
    assert run.status == Run.Status.FAILED
    assert f"{which} was called from async code" in run.error["message"]
    assert "django_stephooks.aio" in run.error["message"]
    assert did == []


# --- a turn of a run whose code is not there -------------------------------------------------------


def test_a_run_whose_workflow_is_not_known_any_more_fails_with_the_nearest_names(no_worker, settings):
    settings.STEPHOOKS = {**settings.STEPHOOKS, "DEPLOY_GRACE": 0}
    run = note.start("never")
    Run.objects.filter(pk=run.pk).update(workflow=f"{note.name}s")
    advance("default")
    assert again(run).status == Run.Status.FAILED
    assert f"Did you mean '{note.name}'" in run.error["message"]
    assert did == []


@workflow
def start_another() -> Any:
    return outer.start("started inside").pk


def test_a_run_started_inside_a_run_is_a_run_of_its_own():
    run = again(start_another.start())
    assert run.status == Run.Status.COMPLETED
    inner = Run.objects.get(pk=run.result)
    assert inner.status == Run.Status.SUSPENDED
    assert calls_of(inner, Event.Type.STEP_STARTED)[0] == "outer:1"
    assert current_frame() is None
