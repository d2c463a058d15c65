"""What emits. `says` is what it says, attempt after attempt; `during` is done in the middle of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import suppress
from typing import Any

from django_stephooks import (
    aio,
    emit,
    emitted,
    load_step_checkpoint,
    once,
    save_step_checkpoint,
    step,
    step_hook,
    workflow,
)

# Each attempt takes the first; the last one stays.
says: list[list[Any]] = []
# What the code noted.
noted: list[Any] = []
during: list[Callable[[], Any]] = []


def reset() -> None:
    for used in (says, noted, during):
        used.clear()


def words() -> list[Any]:
    return says.pop(0) if len(says) > 1 else says[0]


def say(key: str | None = None) -> None:
    for number, word in enumerate(words()):
        if isinstance(word, Exception):
            raise word
        if word is during:
            during[0]()
        else:
            emit(word, key=None if key is None else f"{key}{number}")


@step(retry_delay="1s", max_retries=1)
def speaks() -> None:
    say()


@step(retry_delay="1s", max_retries=1)
def speaks_with_keys() -> None:
    say(key="word")


@step
def speaks_then_asks() -> Any:
    say()
    return step_hook("go_on")


@step
def asks_with_a_checkpoint() -> int:
    """Says something before the question and something else behind it, and knows where it stands."""
    emit("hello")
    if load_step_checkpoint() is None:
        say()
        save_step_checkpoint("said")
    noted.append(emitted())
    step_hook("go_on")
    say()
    return emitted()


@step
def says_once() -> int:
    once("opening", say)
    noted.append(emitted())
    step_hook("go_on")
    say()
    return emitted()


@step
def says_in_a_nested_step() -> None:
    emit("outer")
    speaks()
    step_hook("go_on")
    emit("outer again")


@step
def swallows() -> None:
    with suppress(BaseException):
        step_hook("go_on")
    noted.append("swallowed")
    emit("too late")


@step
def tells(question: str) -> Generator[str, None, str]:
    """Yields, asks, and returns."""
    try:
        yield "let me see"
        found = step_hook("go_on")
        yield f"{question} {found}"
        return "done"
    finally:
        noted.append("closed")


@step
async def tells_async(question: str) -> AsyncIterator[str]:
    yield "let me see"
    found = await aio.step_hook("go_on")
    yield f"{question} {found}"


@step
async def speaks_async(name: str) -> None:
    for number in range(3):
        await aio.emit(f"{name}{number}", key=f"{number}")
        await asyncio.sleep(0)
    noted.append(await aio.emitted())


@workflow
def run_step(name: str) -> Any:
    return globals()[name]()


@workflow
def asks_whoever_tells(question: str) -> Any:
    return tells(question)


@workflow
async def asks_whoever_tells_async(question: str) -> Any:
    return await tells_async(question)


@workflow
async def speaks_side_by_side() -> None:
    await asyncio.gather(speaks_async("a"), speaks_async("b"))


@workflow
def speaks_itself() -> None:
    emit("from the workflow")
    step_hook("go_on")
    emit("and on")
