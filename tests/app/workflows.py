"""Workflows that the package finds by itself, because this module is called so.

`seen` is what their code did, in order. `tell` and `during` are called where a test wants to be in
the middle of something; it puts its own function in their place.
"""

from __future__ import annotations

from typing import Any

from django_stephooks import aio, step, step_hook, workflow

seen: list[Any] = []


def tell(token: str) -> None:
    """What `on_created` does."""
    seen.append(("told", token))


def during() -> Any:
    """What a step does besides asking."""


# The story that the factories' rows are about.


@step
def review(title: str) -> Any:
    return step_hook("approve", title=title, on_timeout="return")


@workflow
def publish(title: str = "A story") -> dict[str, Any]:
    return {"title": title, "answer": review(title)}


# One question.


@step
def ask(timeout: Any = None, on_timeout: str = "raise") -> Any:
    seen.append("asking")
    # Looked up when it is called: a test may have put another function in its place.
    return step_hook(
        "approve",
        timeout=timeout,
        on_timeout=on_timeout,
        on_created=lambda token: tell(token),
    )


@workflow
def question(timeout: Any = None, on_timeout: str = "raise") -> Any:
    return ask(timeout, on_timeout)


# Several questions of one name.


@step
def negotiate(rounds: int) -> list[Any]:
    return [step_hook("approve", on_created=lambda token: tell(token)) for _ in range(rounds)]


@workflow
def loop_in_a_step(rounds: int) -> list[Any]:
    return negotiate(rounds)


@workflow
def loop_of_steps(rounds: int) -> list[Any]:
    return [ask() for _ in range(rounds)]


@step
def draft() -> Any:
    return step_hook("approve")


@step
def layout() -> Any:
    return step_hook("approve")


@workflow
def two_steps() -> list[Any]:
    return [draft(), layout()]


@aio.step
async def ask_both(first: Any, second: Any, on_timeout: str = "return") -> list[Any]:
    import asyncio

    return await asyncio.gather(
        aio.step_hook("approve", timeout=first, on_timeout=on_timeout),
        aio.step_hook("approve", timeout=second, on_timeout=on_timeout),
    )


@aio.workflow
async def at_once(first: Any = None, second: Any = None) -> list[Any]:
    return await ask_both(first, second)


@workflow
def one_after_the_other(first: Any, second: Any) -> list[Any]:
    return [ask(first, "return"), ask(second, "return")]


# Work without a question.


@step(max_retries=0)
def work() -> Any:
    seen.append("work")
    return during()


@workflow
def working() -> Any:
    return work()


@workflow
def work_then_ask() -> list[Any]:
    return [work(), ask()]


@workflow
def echo(value: Any = None) -> Any:
    return value


@workflow(max_recoveries=1)
def fragile() -> Any:
    return work()
