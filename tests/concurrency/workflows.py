"""Workflows that wait where a test wants them to, and note what they did."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from django_stephooks import (
    STEP_HOOK_TIMEOUT,
    question,
    save_step_checkpoint,
    step,
    step_hook,
    wait_all,
    wait_first,
    workflow,
)

PATIENCE = 60

done: list[Any] = []
# What a test puts between two moments of a turn.
between: dict[str, Callable[..., Any]] = {}


class Gate:
    """A step waits in it until the test opens it."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self, *_: object) -> None:
        self.reached.set()
        assert self.opened.wait(PATIENCE), "The test never opened the gate."

    def wait(self) -> None:
        assert self.reached.wait(PATIENCE), "Nobody came to the gate."

    def open(self) -> None:
        self.opened.set()


def come_by(moment: str, *args: object) -> None:
    between.get(moment, lambda *_: None)(*args)


@step
def count(number: int) -> int:
    done.append(number)
    return number


@workflow
def count_once(number: int) -> int:
    return count(number)


@step
def ask(timeout: float | None = None) -> Any:
    answer = step_hook("approve", timeout=timeout, on_timeout="return")
    return "nobody" if answer is STEP_HOOK_TIMEOUT else answer


@workflow
def ask_one(timeout: float | None = None) -> Any:
    return ask(timeout)


@step
def ask_and_tell() -> Any:
    return step_hook("approve", on_created=lambda token: come_by("telling", token))


@workflow
def ask_with_telling() -> Any:
    return ask_and_tell()


@step(max_retries=0)
def work_long(name: str) -> str:
    come_by("working")
    save_step_checkpoint({"at": name})
    come_by("saved")
    done.append(name)
    return name


@workflow
def take_long() -> list[str]:
    return [work_long("first"), work_long("second")]


@workflow
def ask_two() -> list[Any]:
    """Asks the second question only when the first is answered, and so has one pending at a time."""
    return [ask(), ask()]


@workflow
def race(names: list[str], timeout: float | None = None) -> list[Any]:
    asked = [question(name, timeout=timeout, on_timeout="return") for name in names]
    who, answer = wait_first(*asked)
    return [who.name, "nobody" if answer is STEP_HOOK_TIMEOUT else answer]


@workflow
def everybody(names: list[str]) -> list[Any]:
    return wait_all(*map(question, names))
