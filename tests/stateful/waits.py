"""Workflows that wait for many at once, made up by hypothesis, and how they must come out.

A program is a list of waits, each a list of questions; the n-th question of all is the hook "ask:n".
`Oracle` knows from what happened, and from nothing else, what became of each question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

from asgiref.sync import sync_to_async

from django_stephooks import (
    STEP_HOOK_TIMEOUT,
    HookTimeoutError,
    aio,
    question,
    step,
    wait_all,
    wait_first,
    workflow,
)
from django_stephooks.durations import parse_duration
from django_stephooks.models import Hook

# What is done when somebody is told; set by the test.
on_told: list[Callable[[str], None]] = []


def tell(token: str) -> None:
    on_told[0](token)


async def atell(token: str) -> None:
    await sync_to_async(tell)(token)


def questions(wait: dict[str, Any], telling: Any) -> list[Any]:
    return [
        question(
            "ask",
            timeout=options["timeout"],
            on_timeout=options["on_timeout"],
            on_created=telling if options["tells"] else None,
        )
        for options in wait["questions"]
    ]


def shown(answer: Any) -> Any:
    return "nobody answered" if answer is STEP_HOOK_TIMEOUT else answer


def all_shown(answers: list[Any]) -> list[Any]:
    return [shown(answer) for answer in answers]


def first_shown(asked: list[Any], first: tuple[Any, Any]) -> list[Any]:
    who, answer = first
    return [asked.index(who), shown(answer)]


def perform(program: list[dict[str, Any]]) -> list[Any]:
    results: list[Any] = []
    for wait in program:
        asked = questions(wait, tell)
        try:
            if wait["kind"] == "all":
                results.append(all_shown(wait_all(*asked)))
            else:
                results.append(first_shown(asked, wait_first(*asked)))
        except HookTimeoutError:
            results.append("too late")
    return results


@workflow
def in_a_workflow(program: list[dict[str, Any]]) -> list[Any]:
    return perform(program)


@step
def in_a_step(program: list[dict[str, Any]]) -> list[Any]:
    return perform(program)


@workflow
def in_a_step_of_a_workflow(program: list[dict[str, Any]]) -> list[Any]:
    return in_a_step(program)


@step
async def in_async_code(program: list[dict[str, Any]]) -> list[Any]:
    results: list[Any] = []
    for wait in program:
        asked = questions(wait, atell)
        try:
            if wait["kind"] == "all":
                results.append(all_shown(await aio.wait_all(*asked)))
            else:
                results.append(first_shown(asked, await aio.wait_first(*asked)))
        except HookTimeoutError:
            results.append("too late")
    return results


DEFINITIONS = [in_a_workflow, in_a_step, in_a_step_of_a_workflow, in_async_code]


class Oracle:
    """What must be true of each question that was asked, by its number, the first is 0."""

    def __init__(self, program: list[dict[str, Any]], now: Callable[[], datetime]) -> None:
        self.program = program
        self.now = now
        self.options = [options for wait in program for options in wait["questions"]]
        self.wait_of = [number for number, wait in enumerate(program) for _ in wait["questions"]]
        self.deadlines: dict[int, datetime | None] = {}
        self.status: dict[int, str] = {}
        self.payloads: dict[int, Any] = {}
        self.told: Counter[int] = Counter()
        self.is_cancelled = False

    @staticmethod
    def number(hook: Hook) -> int:
        return int(hook.call.rpartition(":")[2]) - 1

    def notice(self, hook: Hook) -> None:
        """It was asked."""
        number = self.number(hook)
        if number not in self.status:
            options = self.options[number]
            expires = options["timeout"] and options["on_timeout"] != "suspend"
            self.deadlines[number] = hook.created_at + parse_duration(options["timeout"]) if expires else None
            self.status[number] = "pending"

    def time_passed(self) -> None:
        for number, deadline in self.deadlines.items():
            if self.status[number] == "pending" and deadline is not None and deadline <= self.now():
                self.status[number] = "expired"

    def answer(self, number: int, payload: Any) -> str:
        """What must come of it: "received", or why it is refused."""
        if self.status[number] != "pending":
            return "refused: " + self.status[number]
        self.status[number] = "received"
        self.payloads[number] = payload
        if self.program[self.wait_of[number]]["kind"] == "first":
            for other in self.questions_of(self.wait_of[number]):
                if self.status[other] == "pending":
                    self.status[other] = "cancelled"
        return "received"

    def cancel(self) -> None:
        self.is_cancelled = True
        for number, status in self.status.items():
            if status == "pending":
                self.status[number] = "cancelled"

    def questions_of(self, wait: int) -> list[int]:
        return [number for number, owner in enumerate(self.wait_of) if owner == wait]

    def is_decided(self, wait: int) -> bool:
        states = [self.status.get(number, "pending") for number in self.questions_of(wait)]
        return "pending" not in states or (self.program[wait]["kind"] == "first" and "received" in states)

    def result(self) -> list[Any]:
        return [self._result_of(wait) for wait in range(len(self.program))]

    def _result_of(self, wait: int) -> Any:
        numbers = self.questions_of(wait)
        silent = [number for number in numbers if self.status[number] == "expired"]
        if self.program[wait]["kind"] == "first":
            for number in numbers:
                if self.status[number] == "received":
                    return [number - numbers[0], self.payloads[number]]
        if any(self.options[number]["on_timeout"] == "raise" for number in silent):
            return "too late"
        answers = [self.payloads.get(number, "nobody answered") for number in numbers]
        return answers if self.program[wait]["kind"] == "all" else [0, "nobody answered"]
