"""Workflows for real workers; they write down what they did, in files that the test can read.

A `desk` is a directory of the test's: a worker appends to its `notes`, and waits at a gate until
the test puts a file of the gate's name there.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from django_stephooks import (
    STEP_HOOK_TIMEOUT,
    RetryableError,
    aio,
    save_step_checkpoint,
    step,
    step_hook,
    workflow,
)

# A worker that nobody lets through goes home by itself.
PATIENCE = 40

CHECKPOINT = "the-secret-in-the-checkpoint"
CONTEXT = "the-secret-in-the-context"


def note(desk: str, what: str) -> None:
    with (Path(desk) / "notes").open("a") as notes:
        notes.write(f"{what}\n")


def pass_gate(desk: str, gate: str) -> None:
    note(desk, f"at {gate}")
    deadline = time.monotonic() + PATIENCE
    while not (Path(desk) / gate).exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"Nobody opened the gate {gate!r}.")
        time.sleep(0.02)


def other_job(desk: str) -> None:
    """A job of the project's own, which is no run."""
    note(desk, "other job")


@step
def draft(desk: str) -> str:
    note(desk, "draft")
    return "a draft"


@step
def review(desk: str, timeout: float | None = None) -> Any:
    answer = step_hook(
        "review",
        timeout=timeout,
        on_created=lambda token: note(desk, "told"),
        on_timeout="return",
    )
    return "nobody" if answer is STEP_HOOK_TIMEOUT else answer


@step
def say_who(desk: str) -> int:
    return os.getpid()


@step
def publish(desk: str) -> None:
    note(desk, "publish")


@workflow
def publish_reviewed(desk: str, timeout: float | None = None) -> list[Any]:
    text = draft(desk)
    answer = review(desk, timeout)
    publish(desk)
    return [text, answer]


@step
def typeset(desk: str) -> str:
    note(desk, "typeset")
    pass_gate(desk, "go")
    return "set"


@workflow
def typeset_draft(desk: str) -> list[str]:
    return [draft(desk), typeset(desk)]


@step(max_retries=2, retry_delay="0.1s")
def stumble(desk: str) -> Any:
    note(desk, "stumble")
    if (Path(desk) / "notes").read_text().count("stumble") < 3:
        raise RetryableError("Not yet.")
    return step_hook("approve")


@workflow
def stumble_then_ask(desk: str) -> Any:
    return stumble(desk)


@step
def keep_secrets(desk: str, secret: str) -> Any:
    save_step_checkpoint({"state": CHECKPOINT})
    answer = step_hook("approve", context={"text": CONTEXT}, on_created=lambda token: pass_gate(desk, "go"))
    pass_gate(desk, "finish")
    return {"answer": answer, "secret": secret}


@workflow
def secretive(desk: str, secret: str) -> Any:
    return keep_secrets(desk, secret)


@step(max_retries=0)
def fail_aloud(secret: str) -> None:
    raise ValueError(f"This failed with {secret}.")


@workflow
def failing(secret: str) -> None:
    fail_aloud(secret)


@aio.step
async def ask_one(desk: str, who: str) -> Any:
    return await aio.step_hook(who)


@aio.workflow
async def ask_both(desk: str) -> list[Any]:
    answers = await asyncio.gather(ask_one(desk, "dana"), ask_one(desk, "eli"))
    note(desk, "both answered")
    return list(answers)
