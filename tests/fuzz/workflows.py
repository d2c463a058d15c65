"""A workflow that stores whatever it is given wherever something can be stored, and asks in between."""

from __future__ import annotations

from typing import Any

from django_stephooks import (
    load_step_checkpoint,
    once,
    save_step_checkpoint,
    step,
    step_hook,
    workflow,
)

# What the next run stores, and what it found again.
given: dict[str, Any] = {}
found: dict[str, Any] = {}


@step(max_retries=0)
def make() -> Any:
    if error := given.get("error"):
        raise error
    return given["result"]


@step(max_retries=0)
def ask() -> Any:
    checkpoint = load_step_checkpoint()
    if checkpoint is None:
        save_step_checkpoint({"state": given["checkpoint"]})
    else:
        found["checkpoint"] = checkpoint["state"]
    found["once"] = once("kept", lambda: given["once"])
    found["payload"] = step_hook("approve", context=given["context"])
    return found["payload"]


@workflow
def keep() -> Any:
    try:
        found["result"] = make()
    except ArithmeticError as error:
        found["error"] = error.args
    ask()
    return given["result"]
