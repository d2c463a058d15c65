"""Workflows that are looked at while they run."""

from __future__ import annotations

import asyncio
from typing import Any

from asgiref.sync import sync_to_async
from opentelemetry import trace

from django_stephooks import aio, once, save_step_checkpoint, step, step_hook, workflow

# What ran, and the span that was current there.
current: list[tuple[str, int]] = []
# What `stumbles` raises, attempt by attempt.
obstacles: list[BaseException] = []


def note(what: str) -> None:
    current.append((what, trace.get_current_span().get_span_context().span_id))


@step
def ask(title: str) -> Any:
    note("ask")
    save_step_checkpoint({"secret": "the checkpoint"})
    once("charge", dict, secret="the result of once")
    return step_hook(
        "approve",
        title=title,
        timeout="1h",
        on_timeout="return",
        context={"secret": "the context"},
        reviewers=["secret.dana@example.com"],
    )


@step
def inner() -> str:
    note("inner")
    return "secret: the result"


@step
def outer() -> None:
    note("outer")
    inner()


@workflow
def asking(title: str = "secret: the title") -> Any:
    note("workflow")
    outer()
    return ask(title)


@aio.step
async def aask(name: str) -> Any:
    note(f"{name} begins")
    await asyncio.sleep(0.001)
    note(f"{name} goes on")
    return await aio.step_hook("approve")


@step
def plain() -> None:
    note("plain")


@aio.workflow
async def side_by_side() -> Any:
    await sync_to_async(plain)()
    note("workflow")
    return await asyncio.gather(aask("first"), aask("second"))


@step(max_retries=1, retry_delay=[0])
def stumbles() -> str:
    if obstacles:
        raise obstacles.pop(0)
    return "there"


@workflow
def stumbling() -> str:
    return stumbles()


# What telling people of `reopens`'s question fails with.
deaf_ears: list[BaseException] = []


def tell(token: str) -> None:
    if deaf_ears:
        raise deaf_ears.pop(0)


@step(max_retries=0)
def ask_loudly() -> Any:
    return step_hook("approve", on_created=tell)


@workflow
def reopens() -> Any:
    return ask_loudly()
