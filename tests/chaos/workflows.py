"""Workflows that write into the diary what they do, and what they are given.

    begin     a body begins: of a step, of what `once` calls, of `on_created`
    made      a step's result, before it is handed to the engine
    saw       what a workflow was given as a step's result (each turn again)
    got       what a question was answered, likewise
    saved, loaded   a checkpoint
    told      an `on_created` has done its work
    returns   a workflow's result

Results are new with each execution, so it shows which execution they are of.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import time
from pathlib import Path
from typing import Any

from asgiref.sync import sync_to_async

from django_stephooks import (
    STEP_HOOK_TIMEOUT,
    FatalError,
    HookTimeoutError,
    RetryableError,
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
from django_stephooks.tokens import token_id

from .diary import DIRECTORY, diary, note
from .marks import SECRET, TIMEOUT

# Faults make attempts fail (a database that is away, a time limit), so there are many of them.
stubborn = {"max_retries": 1000, "retry_delay": "0.3s"}


def here(suffix: str = "") -> dict[str, Any]:
    """The place in the run that the code is at."""
    frame = current_frame()
    assert frame is not None
    run = frame.turn.run
    return {"run": run.pk, "turn": run.turn, "call": frame.call + suffix}


def take_a_while() -> None:
    """So that whoever is stopped or killed mostly is in the middle of something."""
    time.sleep(min(1, random.expovariate(12)))


def made(label: str) -> str:
    value = f"{label}-{secrets.token_hex(6)}-{SECRET}"
    note("made", **here(), value=value)
    return value


def saw(label: str, value: Any) -> Any:
    note("saw", **here(), label=label, value=value)
    return value


def got(name: str, answer: Any) -> Any:
    note("got", **here(), name=name, value=TIMEOUT if answer is STEP_HOOK_TIMEOUT else answer)
    return TIMEOUT if answer is STEP_HOOK_TIMEOUT else answer


def returns(value: Any) -> Any:
    note("returns", **here(), value=value)
    return value


def tell(token: str) -> None:
    """Mail the token. (The mail is not part of the diary, so that only mail holds tokens.)"""
    hook = str(token_id(token))
    note("begin", **here("/tell"), hook=hook)
    diary("mail").write("mail", hook=hook, token=token)
    note("told", **here(), hook=hook)


def tell_at_last(token: str) -> None:
    if random.random() < 0.4:
        note("begin", **here("/tell"), hook=str(token_id(token)))
        raise ConnectionError("The mail server does not answer.")
    tell(token)


def tell_slowly(token: str) -> None:
    time.sleep(random.uniform(0.1, 0.6))
    tell(token)


TELLING = {"nobody": None, "people": tell, "at last": tell_at_last, "slowly": tell_slowly}


def hook_options(question: dict[str, Any]) -> dict[str, Any]:
    return {
        "timeout": question.get("timeout"),
        "on_timeout": question.get("on_timeout", "raise"),
        "on_created": TELLING[question["telling"]],
        "title": f"Question {question['name']}",
        "context": {"secret": SECRET},
    }


def ask(question: dict[str, Any]) -> Any:
    name = question["name"]
    try:
        answer = step_hook(name, **hook_options(question))
    except HookTimeoutError:
        got(name, TIMEOUT)
        if question.get("uncaught"):
            raise
        return TIMEOUT
    return got(name, answer)


# --- steps ---


@step(**stubborn)
def work(label: str, seconds: float = 0) -> str:
    note("begin", **here())
    time.sleep(seconds)
    take_a_while()
    return made(label)


@step(**stubborn)
def stumble(label: str, odds: float) -> str:
    note("begin", **here())
    take_a_while()
    if random.random() < odds:
        raise RetryableError("Not this time.")
    return made(label)


@step(**stubborn)
def outer(label: str) -> str:
    note("begin", **here())
    parts = [saw(f"{label}.{part}", work(f"{label}.{part}")) for part in ("a", "b")]
    return made(f"{label}({len(parts)})")


def bill(label: str) -> str:
    note("begin", **here(f"/once[{label}]"))
    take_a_while()
    return made(f"{label}.receipt")


@step(**stubborn)
def charge(label: str, odds: float) -> str:
    note("begin", **here())
    for part in ("card", "mail"):
        saw(f"{label}.{part}", once(part, bill, part))
        if random.random() < odds:
            raise RetryableError("The line is down.")
    return made(label)


@step(**stubborn)
def review(label: str, question: dict[str, Any]) -> Any:
    note("begin", **here())
    state = load_step_checkpoint()
    if state is None:
        state = {"setup": f"{label}-{secrets.token_hex(6)}", "secret": SECRET, "filler": "x" * 2000}
        save_step_checkpoint(state)
        note("saved", **here(), value=state["setup"])
    else:
        note("loaded", **here(), value=state["setup"])
    answer = ask(question)
    take_a_while()
    return {"made": made(label), "answer": answer}


@step(max_retries=0)
def mended(label: str, uid: str) -> str:
    note("begin", **here())
    if not (Path(os.environ[DIRECTORY]) / f"mended-{uid}").exists():
        raise FatalError("It is broken until somebody mends it.")
    return made(label)


# --- workflows ---


@workflow
def publish(uid: str, question: dict[str, Any], seconds: float) -> Any:
    draft = saw("draft", work("draft", seconds))
    answer = saw("review", review("review", question))
    return returns([draft, answer, saw("publish", work("publish"))])


@workflow(queue="slow")
def rounds(uid: str, questions: list[dict[str, Any]]) -> Any:
    said = []
    for question in questions:
        said.append(ask(question))
        said.append(saw(f"after {question['name']}", work("revise")))
    return returns(said)


@workflow
def naps(uid: str, lengths: list[float]) -> Any:
    done = []
    for number, length in enumerate(lengths):
        sleep(length)
        done.append(saw(f"nap{number}", work("dream")))
    return returns(done)


@workflow
def pay(uid: str, odds: float) -> Any:
    first = saw("first", charge("first", odds))
    between = saw("between", stumble("between", odds))
    return returns([first, between, saw("second", charge("second", odds)), saw("outer", outer("outer"))])


@workflow
def toil(uid: str, seconds: float) -> Any:
    """Longer than its lease, which must be renewed."""
    return returns([saw("before", work("before")), saw("toil", work("toil", seconds))])


@workflow
def repair(uid: str) -> Any:
    return returns([saw("before", work("before")), saw("mended", mended("mended", uid))])


@aio.step(**stubborn)
async def member(question: dict[str, Any]) -> Any:
    note("begin", **here())
    try:
        answer = await aio.step_hook(question["name"], **hook_options(question))
    except HookTimeoutError:
        answer = TIMEOUT
    got(question["name"], answer)
    return made(question["name"])


@aio.workflow
async def council(uid: str, questions: list[dict[str, Any]], nap: float) -> Any:
    async def chores() -> list[Any]:
        await aio.sleep(nap)
        return [
            saw("chore", await sync_to_async(work)("chore")),
            saw("once", await aio.once("minutes", bill, "minutes")),
        ]

    members = [member(question) for question in questions]
    *said, done = await asyncio.gather(*members, chores())
    for question, value in zip(questions, said, strict=True):
        saw(f"member {question['name']}", value)
    return returns([*said, done])
