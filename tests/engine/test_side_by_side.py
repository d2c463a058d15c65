"""Concurrent code in a run: gather, TaskGroup and create_task over steps and hooks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async

from django_stephooks import resume_hook, retry_run
from django_stephooks.aio import once, save_step_checkpoint, sleep, step, step_hook, workflow
from django_stephooks.engine.worker import advance
from django_stephooks.models import Event, Hook, Run, StepCheckpoint

from .watching import again, answer, calls_of, data_of, did, events_of, later

pytestmark = pytest.mark.django_db(transaction=True)


async def mail(token: str) -> None:
    did.append("mail")


@step
async def work(what: str, *, pause: float = 0) -> str:
    did.append(f"{what} begins")
    await asyncio.sleep(pause)
    did.append(f"{what} ends")
    return f"{what} done"


@step
async def ask(name: str) -> str:
    did.append(f"asks {name}")
    return f"{name}: {await step_hook('approve', on_created=mail)}"


@workflow
async def gather_them() -> list[Any]:
    return await asyncio.gather(ask("a"), work("slow", pause=0.05), ask("b"), step_hook("c"))


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "b", "a"), ("b", "c", "a")])
def test_siblings_go_on_until_each_has_completed_or_waits_and_answers_come_in_any_order(order):
    run = gather_them.start()

    assert again(run).status == Run.Status.SUSPENDED, run.error
    assert did.count("slow ends") == 1
    assert did.count("mail") == 2
    calls = {"a": "ask:1/approve:1", "b": "ask:2/approve:1", "c": "c:1"}
    (suspended,) = data_of(run, Event.Type.RUN_SUSPENDED)
    assert suspended["waits_for"] == sorted(calls.values())

    for name in order:
        answer(run, f"yes, {name}", calls[name])

    assert run.status == Run.Status.COMPLETED, run.error
    assert run.result == ["a: yes, a", "slow done", "b: yes, b", "yes, c"]
    assert did.count("slow begins") == 1
    assert did.count("mail") == 2
    assert len(events_of(run, Event.Type.STEP_COMPLETED)) == 3


def test_answers_that_come_all_together_are_all_read(no_worker):
    run = gather_them.start()
    advance("default")
    for hook in Hook.objects.filter(run=run):
        resume_hook(hook.token, "together")
    advance("default")
    assert again(run).result == ["a: together", "slow done", "b: together", "together"]


@workflow
async def gather_exceptions() -> list[str]:
    results = await asyncio.gather(ask("a"), fail(), return_exceptions=True)
    did.append("went on")
    await work("after")
    return [str(result) for result in results]


@step(max_retries=0)
async def fail() -> None:
    did.append("fails")
    raise ValueError("no luck")


def test_gather_that_returns_exceptions_suspends_and_later_returns_only_real_ones():
    run = again(gather_exceptions.start())
    assert run.status == Run.Status.SUSPENDED
    assert "after begins" not in did

    answer(run)

    assert run.status == Run.Status.COMPLETED, run.error
    assert run.result == ["a: yes", "no luck"]
    assert did.count("fails") == 1
    assert did.count("after begins") == 1


@workflow
async def gather_one_that_fails() -> list[Any]:
    return list(await asyncio.gather(fail(), ask("a"), ask("b")))


def test_gather_that_raises_a_failure_beside_those_who_wait_has_swallowed_nothing():
    run = again(gather_one_that_fails.start())
    for _ in range(2):
        assert run.status == Run.Status.SUSPENDED, run.error
        answer(run, "yes", Hook.objects.filter(run=run, status=Hook.Status.PENDING).first().call)
    assert run.status == Run.Status.FAILED
    assert run.error["message"] == "no luck"
    assert did.count("fails") == 1
    assert Event.Type.STEP_WARNED not in events_of(run)


@workflow
async def task_group() -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(name)) for name in ("a", "b")]
        tasks.append(group.create_task(work("c")))
    return [task.result() for task in tasks]


def test_a_task_group_suspends_and_completes_once_everybody_answered():
    run = again(task_group.start())
    for _ in range(3):
        if hook := Hook.objects.filter(run=run, status=Hook.Status.PENDING).first():
            assert run.status == Run.Status.SUSPENDED, run.error
            answer(run, "yes", hook.call)

    assert run.status == Run.Status.COMPLETED, run.error
    assert run.result == ["a: yes", "b: yes", "c done"]
    assert calls_of(run, Event.Type.STEP_COMPLETED).count("work:1") == 1
    assert Event.Type.STEP_WARNED not in events_of(run)


@step
async def task_group_in_a_step() -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask("a")), group.create_task(work("b", pause=0.05))]
    return [task.result() for task in tasks]


def test_a_step_whose_task_group_is_taken_down_by_a_suspension_has_swallowed_nothing():
    run = task_group_in_a_step.start()
    answer(run)
    assert run.result == ["a: yes", "b done"]
    assert Event.Type.STEP_WARNED not in events_of(run)


@workflow
async def background_task() -> list[str]:
    task = asyncio.create_task(work("background", pause=0.05))
    asked = await ask("foreground")
    return [asked, await task]


def test_a_task_in_the_background_is_finished_before_the_run_is_suspended():
    run = background_task.start()
    assert again(run).status == Run.Status.SUSPENDED
    assert did.count("background ends") == 1
    answer(run)
    assert run.result == ["foreground: yes", "background done"]
    assert did.count("background ends") == 1


@workflow
async def forgotten_task() -> str:
    forgotten_task.task = asyncio.create_task(work("forgotten", pause=0.05))
    return "done"


def test_a_task_that_nobody_awaits_is_finished_before_the_run_completes():
    run = again(forgotten_task.start())
    assert run.status == Run.Status.COMPLETED, run.error
    assert did == ["forgotten begins", "forgotten ends"]
    assert events_of(run)[-1] == Event.Type.RUN_COMPLETED
    assert calls_of(run, Event.Type.STEP_COMPLETED) == ["work:1"]


@workflow
async def one_fails_while_the_other_asks() -> None:
    await asyncio.gather(fail(), ask("a"))


def test_a_failed_sibling_fails_the_run_once_the_other_one_is_answered():
    run = again(one_fails_while_the_other_asks.start())
    assert run.status == Run.Status.SUSPENDED
    answer(run)
    assert run.status == Run.Status.FAILED
    assert run.error["message"] == "no luck"
    assert did.count("fails") == 1


# --- gather in a step, under a plain workflow ------------------------------------------------------


@step
async def gather_in_a_step() -> list[str]:
    return await asyncio.gather(ask("a"), work("slow", pause=0.05), ask("b"))


@workflow
def plain_workflow() -> Any:
    return plain_step()


@step
def plain_step() -> Any:
    return async_to_sync(gather_in_a_step)()


@workflow
async def async_workflow() -> Any:
    return await sync_to_async(plain_step)()


@pytest.mark.parametrize("definition", [gather_in_a_step, plain_workflow, async_workflow, plain_step])
def test_siblings_go_on_wherever_the_event_loop_came_from(definition):
    run = definition.start()
    assert again(run).status == Run.Status.SUSPENDED, run.error
    assert did.count("mail") == 2
    assert did.count("slow ends") == 1

    for hook in Hook.objects.filter(run=run).order_by("-pk"):
        answer(run, "yes", hook.call)

    assert run.status == Run.Status.COMPLETED, run.error
    assert run.result == ["a: yes", "slow done", "b: yes"]
    assert did.count("slow ends") == 1


@workflow
def plain_workflow_with_a_loop_of_its_own() -> Any:
    async def chain(name: str) -> list[str]:
        return [await work(f"{name} first"), await ask(name), await work(f"{name} last")]

    async def both() -> Any:
        return await asyncio.gather(chain("a"), chain("b"))

    return async_to_sync(both)()


def test_a_loop_that_the_code_began_itself_repeats_no_recorded_step():
    run = again(plain_workflow_with_a_loop_of_its_own.start())
    for _ in range(3):
        for hook in Hook.objects.filter(run=run, status=Hook.Status.PENDING):
            answer(run, "yes", hook.call)
    assert run.status == Run.Status.COMPLETED, run.error
    assert run.result == [[f"{n} first done", f"{n}: yes", f"{n} last done"] for n in "ab"]
    completed = calls_of(run, Event.Type.STEP_COMPLETED)
    assert len(completed) == len(set(completed)) == 6
    assert did.count("mail") == 2


# --- retries among siblings -------------------------------------------------------------------------


@step(max_retries=1, retry_delay=0)
async def gather_and_fail_at_first() -> Any:
    return await asyncio.gather(fails_once(), work("sibling", pause=0.05))


async def fails_once() -> str:
    did.append("attempt")
    if did.count("attempt") == 1:
        raise ValueError("the first time")
    return "fine"


@workflow
async def retry_at_once_beside_a_sibling() -> Any:
    return await gather_and_fail_at_first()


@pytest.mark.parametrize("definition", [retry_at_once_beside_a_sibling, gather_and_fail_at_first])
def test_an_attempt_begins_only_when_the_siblings_of_the_last_one_have_ended(definition, clock):
    run = later(clock, "1s", definition.start())
    assert run.status == Run.Status.COMPLETED, run.error
    assert run.result == ["fine", "sibling done"]
    assert did.count("attempt") == 2
    assert did.count("sibling begins") == 1


@step(max_retries=2, retry_delay=[5, 30])
async def fail_twice_beside(name: str) -> str:
    did.append(f"{name} tries")
    if did.count(f"{name} tries") < 3:
        raise ValueError(name)
    return f"{name} fine"


@workflow
async def retry_beside_a_question() -> Any:
    return await asyncio.gather(fail_twice_beside("x"), ask("a"), fail_twice_beside("y"))


def test_retries_go_on_while_a_sibling_waits_for_a_person(clock):
    run = retry_beside_a_question.start()
    assert did.count("x tries") == 1
    later(clock, "5s", run)
    assert did.count("x tries") == 2
    answer(run)
    assert did.count("x tries") == did.count("y tries") == 2
    later(clock, "30s", run)
    assert run.result == ["x fine", "a: yes", "y fine"]
    assert did.count("asks a") >= 1
    assert did.count("mail") == 1


@step(max_retries=0)
async def fail_unless_mended() -> str:
    did.append("tries")
    if "mended" not in did:
        raise ValueError("broken")
    return "mended"


@workflow
async def one_fails_while_the_other_works() -> Any:
    return await asyncio.gather(fail_unless_mended(), work("slow", pause=0.05))


def test_a_run_that_failed_beside_a_sibling_that_completed_later_can_be_retried():
    run = again(one_fails_while_the_other_works.start())
    assert run.status == Run.Status.FAILED
    assert calls_of(run, Event.Type.STEP_COMPLETED, Event.Type.STEP_FAILED) == [
        "fail_unless_mended:1",
        "work:1",
    ]
    did.append("mended")
    retry_run(run)
    assert again(run).result == ["mended", "slow done"]
    assert did.count("slow begins") == 1


# --- what siblings share ----------------------------------------------------------------------------


@workflow
async def checkpoints_beside_a_question() -> Any:
    return await asyncio.gather(step_hook("a"), save_later())


async def save_later() -> None:
    await asyncio.sleep(0.05)
    await save_step_checkpoint("saved after the sibling waited")


def test_a_sibling_that_goes_on_saves_its_checkpoint():
    run = again(checkpoints_beside_a_question.start())
    assert run.status == Run.Status.SUSPENDED
    assert StepCheckpoint.objects.get(run=run).data == "saved after the sibling waited"


@workflow
async def timers_and_questions() -> Any:
    return await asyncio.gather(sleep("1h"), step_hook("a"), sleep("2h"))


def test_timers_and_questions_wait_side_by_side(clock):
    began = clock.now
    run = again(timers_and_questions.start())
    assert (run.due_at - began).total_seconds() == 3600
    later(clock, "1h", run)
    assert run.status == Run.Status.SUSPENDED
    assert (run.due_at - began).total_seconds() == 7200
    answer(run)
    assert run.status == Run.Status.SUSPENDED
    later(clock, "1h", run)
    assert run.result == [None, "yes", None]


@workflow
async def agent_tools() -> Any:
    async def tool(call_id: str, pause: float) -> Any:
        await asyncio.sleep(pause)
        return await step_hook("tool", key=call_id)

    pauses = (0.05, 0) if len(did) == 0 else (0, 0.05)
    did.append("turn")
    return await asyncio.gather(tool("first", pauses[0]), tool("second", pauses[1]))


def test_a_key_keeps_answers_apart_where_the_order_changes():
    run = agent_tools.start()
    answer(run, 1, "tool[first]")
    answer(run, 2, "tool[second]")
    assert run.result == [1, 2]


async def slow_charge(amount: int) -> int:
    did.append("charge")
    await asyncio.sleep(0.05)
    return amount


@step
async def siblings_with_one_key() -> Any:
    charged = await asyncio.gather(once("charge", slow_charge, 1), once("charge", slow_charge, 2))
    asked = await asyncio.gather(
        step_hook("approve", key="one", on_created=slow_mail),
        step_hook("approve", key="one", on_created=slow_mail),
    )
    return [charged, asked]


async def slow_mail(token: str) -> None:
    await asyncio.sleep(0.05)
    did.append("mail")


def test_siblings_with_one_key_do_it_once_and_ask_once():
    run = siblings_with_one_key.start()
    answer(run)
    assert run.result == [[1, 1], ["yes", "yes"]]
    assert did == ["charge", "mail"]


async def fails_at_first() -> str:
    did.append("call")
    await asyncio.sleep(0.05)
    if did.count("call") == 1:
        raise ValueError("at first")
    return "fine"


@step
async def siblings_of_one_key_that_fails() -> Any:
    calls = [once("key", fails_at_first) for _ in range(3)]
    return [str(result) for result in await asyncio.gather(*calls, return_exceptions=True)]


def test_the_next_sibling_tries_what_raised():
    run = again(siblings_of_one_key_that_fails.start())
    assert run.result == ["at first", "fine", "fine"]
    assert did == ["call", "call"]


# --- the end of the time ----------------------------------------------------------------------------


async def never() -> None:
    await asyncio.Event().wait()


@workflow(job_timeout="200ms")
async def hangs_in_the_background() -> None:
    hangs_in_the_background.task = asyncio.create_task(never())
    await never()


@workflow(job_timeout="200ms")
async def leaves_something_hanging() -> str:
    leaves_something_hanging.task = asyncio.create_task(never())
    return "done"


@pytest.mark.parametrize("definition", [hangs_in_the_background, leaves_something_hanging])
def test_the_job_timeout_ends_tasks_too(definition):
    run = again(definition.start())
    assert run.status == Run.Status.FAILED
    assert "job_timeout" in run.error["message"]
