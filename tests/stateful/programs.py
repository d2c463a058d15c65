"""Workflows whose code is their argument: a list of things to do, made up by hypothesis.

Each thing is a tuple that begins with its kind; `perform` does it and returns its result. The World is
what the code sees beside its arguments: whatever it does there is noted, and may be interrupted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from asgiref.sync import sync_to_async

from django_stephooks import (
    STEP_HOOK_TIMEOUT,
    aio,
    load_step_checkpoint,
    once,
    save_step_checkpoint,
    sleep,
    step,
    step_hook,
    workflow,
)
from django_stephooks.engine.frames import current_frame
from django_stephooks.models import Event, Hook


class World:
    """`interrupt` is called once, in the middle of the act that it is set for."""

    def __init__(self) -> None:
        self.acts: Counter[tuple[int, str]] = Counter()
        self.told: Counter[int] = Counter()
        self.wrong: list[str] = []
        self.mended = False
        self.interrupt: Callable[[], None] | None = None
        self.interrupt_after = 0

    def interrupt_if_set(self) -> None:
        if self.interrupt is None:
            return
        if self.interrupt_after:
            self.interrupt_after -= 1
            return
        interrupt, self.interrupt = self.interrupt, None
        interrupt()


world = World()


def act(what: str) -> int:
    """How often this was done, this time included."""
    frame = current_frame()
    run = frame.turn.run
    recorded = Event.objects.filter(run=run, type__in=("step_completed", "once_completed"))
    calls = (frame.call, f"{frame.call}/once[{what}]", f"once[{what}]")
    if recorded.filter(call__in=calls).exists():
        world.wrong.append(f"{what} was recorded and is done again")
    world.acts[run.pk, frame.call, what] += 1
    world.interrupt_if_set()
    return world.acts[run.pk, frame.call, what]


def tell(token: str) -> None:
    (hook,) = [hook for hook in Hook.objects.filter(status=Hook.Status.PENDING) if hook.token == token]
    if hook.notified_at is not None:
        world.wrong.append(f"{hook.call} is told again")
    world.told[hook.pk] += 1
    world.interrupt_if_set()


def fail_to_tell_at_first(token: str) -> None:
    tell(token)
    (hook,) = [hook for hook in Hook.objects.filter(status=Hook.Status.PENDING) if hook.token == token]
    if world.told[hook.pk] == 1:
        raise ConnectionError("no mail server")


TELLING = {"nobody": None, "people": tell, "at last": fail_to_tell_at_first}


@step
def plain(what: str) -> str:
    act(what)
    return what


@step(max_retries=3, retry_delay="1m")
def flaky(failures: int) -> str:
    if act("flaky") <= failures:
        raise ConnectionError("try again")
    return "flaky"


@step(max_retries=0)
def broken() -> str:
    act("broken")
    if not world.mended:
        raise LookupError("broken")
    return "mended"


@step(max_retries=3, retry_delay="1m")
def asks(options: dict[str, Any]) -> Any:
    """A hook below a step, with a checkpoint and a `once` around it."""
    if load_step_checkpoint() is None:
        act("expensive")
        save_step_checkpoint("expensive")
    once("before", act, "before")
    return [ask(options), once("after", act, "after") and "after"]


def hook_options(options: dict[str, Any]) -> dict[str, Any]:
    return {**options, "on_created": TELLING[options["on_created"]]}


def shown(answer: Any) -> Any:
    return "nobody answered" if answer is STEP_HOOK_TIMEOUT else answer


def ask(options: dict[str, Any]) -> Any:
    return shown(step_hook("ask", **hook_options(options)))


def perform(kind: str, argument: Any) -> Any:
    if kind == "hook":
        return ask(argument)
    if kind == "sleep":
        return sleep(argument)
    if kind == "once":
        return once(argument, act, argument) and argument
    return {"plain": plain, "flaky": flaky, "asks": asks}[kind](argument) if argument else broken()


@workflow
def in_a_row(program: list[Any]) -> list[Any]:
    return [perform(*thing) for thing in program]


@step(max_retries=3, retry_delay="1m")
def in_one_step(program: list[Any]) -> list[Any]:
    return [perform(*thing) for thing in program]


@workflow
async def side_by_side(program: list[Any]) -> list[Any]:
    return list(await asyncio.gather(*(aperform(*thing) for thing in program)))


async def aperform(kind: str, argument: Any) -> Any:
    if kind == "hook":
        return shown(await aio.step_hook("ask", **hook_options(argument)))
    if kind == "sleep":
        return await aio.sleep(argument)
    if kind == "once":
        return await aio.once(argument, act, argument) and argument
    return await sync_to_async(perform)(kind, argument)
