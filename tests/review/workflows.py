"""Workflows that ask by mail. `asked` is whom; `rounds` is how often."""

from __future__ import annotations

from typing import Any

from django_stephooks import aio, step, step_hook, workflow
from django_stephooks.mail import email_reviewers

whom: list[Any] = []


@step(max_retries=0)
def ask(title: str, rounds: int, timeout: Any) -> list[Any]:
    return [
        step_hook("approve", title=title, timeout=timeout, on_created=email_reviewers(whom))
        for _ in range(rounds)
    ]


@workflow
def asking(title: str = "Publish 'Fog'?", rounds: int = 1, timeout: Any = None) -> list[Any]:
    return ask(title, rounds, timeout)


@aio.step(max_retries=0)
async def ask_async() -> Any:
    return await aio.step_hook("approve", on_created=email_reviewers(whom))


@aio.workflow
async def asking_async() -> Any:
    return await ask_async()
