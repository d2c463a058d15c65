"""The work that is measured: one step that saves a checkpoint of 2 KB and asks one person."""

from __future__ import annotations

import asyncio
import random
import string
from typing import Any

from django_stephooks import (
    STEP_HOOK_TIMEOUT,
    aio,
    load_step_checkpoint,
    save_step_checkpoint,
    step,
    step_hook,
)
from django_stephooks import workflow as define_workflow


def _letters(count: int) -> str:
    # Letters in no order: a database that compresses what it stores gains nothing by it.
    return "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=count))  # noqa: S311


# As JSON: 2,048 and 200 bytes.
STATE = {"state": _letters(2036)}
PAYLOAD = {"verdict": "approved", "note": _letters(168)}


@step
def review(number: int) -> str:
    """One checkpoint, one hook: what every figure is about that names nothing else."""
    if load_step_checkpoint() is None:
        save_step_checkpoint(STATE)
    answer = step_hook("approve", timeout="7d", on_timeout="return")
    return "too late" if answer is STEP_HOOK_TIMEOUT else str(answer["verdict"])


@define_workflow
def reviewed(number: int) -> str:
    """The same step, called by a workflow."""
    return review(number)


@step
def ask_in_turn(count: int) -> int:
    """Many hooks, each asked when the one before is answered."""
    return sum(step_hook("approve")["verdict"] == "approved" for _ in range(count))


@step
async def ask_at_once(count: int) -> int:
    """Many hooks, all asked before the first is answered."""
    answers: list[Any] = await asyncio.gather(*(aio.step_hook("approve", key=str(n)) for n in range(count)))
    return sum(answer["verdict"] == "approved" for answer in answers)
