"""The workflows of the runs that are kept here. What a kept run was made by must never change: add to it.

`did` is what the code did in this process. `weather` is what the code meets outside: bad while a
fixture is made, good while it is tried.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django import forms
from pydantic import BaseModel

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

did: list[str] = []


@dataclass
class Weather:
    bad: bool = False


weather = Weather()


class PowerCut(BaseException):
    """The process ends in the middle of a turn."""


class Verdict(BaseModel):
    approved: bool
    score: Decimal
    until: date | None = None


class VerdictForm(forms.Form):
    approved = forms.BooleanField(required=False)
    until = forms.DateField()


# One of each kind of value that is recorded.
EVERYTHING: dict[str, Any] = {
    "none": None,
    "falsy": [False, 0, 0.0, "", [], {}],
    "numbers": [1, -(2**70), 1.5, 1e16, Decimal("1.10"), Decimal("NaN").copy_abs().is_nan()],
    "text": "Übersee, 北京, a NUL \x00, a lone surrogate \ud800, a tag $t",
    "moments": [
        datetime(2026, 11, 29, 12, 30, 15, 123456, tzinfo=UTC),
        datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Vienna"), fold=1),
        datetime(1999, 12, 31, 23, 59, 59, tzinfo=timezone(timedelta(hours=-3, minutes=-30))),
        date(2026, 2, 28),
        time(23, 59, 59, 999999),
        timedelta(days=-1, microseconds=1),
    ],
    "uuid": UUID("12345678-1234-5678-1234-567812345678"),
    "bytes": bytes(range(256)),
    "sets": [{1, 2}, frozenset({"a"}), {(1, "b"), (2, "c")}],
    "tuple": (1, (2, ())),
    "keys": {1: "one", None: "none", (1, 2): "pair", "$t": "tag", date(2026, 1, 1): "day"},
    "model": Verdict(approved=True, score=Decimal("9.90"), until=date(2027, 1, 1)),
}


@step
def draft(title: str) -> str:
    did.append("draft")
    return f"a draft of {title}"


@step
def publish(text: str) -> str:
    did.append("publish")
    return f"published: {text}"


@workflow
def ask_in_workflow(title: str) -> list[Any]:
    text = draft(title)
    answer = step_hook("approve", timeout="24h", title=f"Publish {title}?", reviewers=["dana@news.example"])
    return [text, answer, publish(text)]


@step
def review(text: str) -> list[Any]:
    state = load_step_checkpoint()
    if state is None:
        did.append("set up")
        state = {"text": text, "everything": EVERYTHING}
        save_step_checkpoint(state)
    sent = once("send", lambda: did.append("send") or "sent")
    answer = step_hook("review", context={"text": text}, on_created=lambda token: did.append("tell"))
    return [state == {"text": text, "everything": EVERYTHING}, sent, answer]


@workflow
def ask_in_step(title: str) -> list[Any]:
    return [*review(draft(title)), "end"]


@aio.step
async def ask_one(who: str) -> Any:
    answer = await aio.step_hook(who, key=who)
    did.append(f"heard {who}")
    return answer


@aio.workflow
async def ask_two() -> list[Any]:
    await aio.once("prepare", did.append, "prepare")
    return list(await asyncio.gather(ask_one("dana"), ask_one("eli")))


@workflow
def wait_for_a_while() -> str:
    text = draft("rest")
    sleep("1h")
    return publish(text)


@step(max_retries=2)
def fetch() -> str:
    did.append("fetch")
    if weather.bad:
        raise RetryableError("The server is down.", retry_after="30m")
    return "fetched"


@workflow
def fetch_when_it_is_back() -> str:
    return fetch()


@workflow
def pass_everything_on(everything: dict[str, Any], *, twice: bool) -> list[Any]:
    step_hook("look", context=everything)
    return [everything, keep(everything)]


@step
def keep(everything: Any) -> Any:
    did.append("keep")
    return everything


@workflow
def ask_with_model() -> Verdict:
    verdict: Verdict = step_hook("verdict", payload_schema=Verdict)
    again: Verdict = step_hook("again", payload_schema=Verdict)
    return Verdict(approved=verdict.approved, score=verdict.score + again.score, until=again.until)


@workflow
def ask_with_form() -> dict[str, Any]:
    return step_hook("verdict", payload_schema=VerdictForm)  # type: ignore[no-any-return]


@workflow
def ask_until_deadline(on_timeout: str) -> Any:
    try:
        answer = step_hook("approve", timeout="1h", on_timeout=on_timeout)
    except HookTimeoutError:
        return "raised"
    return "returned" if answer is STEP_HOOK_TIMEOUT else answer


@workflow
def ask_after_a_deadline() -> list[Any]:
    first = step_hook("first", timeout="1s", on_timeout="return")
    return [first is STEP_HOOK_TIMEOUT, step_hook("second")]


@workflow
def ask_in_rounds() -> list[Any]:
    return [*(step_hook("round") for _ in range(3)), *(step_hook("keyed", key=key) for key in "ab")]


@workflow
def print_it() -> str:
    text = draft("power")
    typeset(text)
    return publish(text)


@step
def typeset(text: str) -> None:
    did.append("typeset")
    if weather.bad:
        raise PowerCut


@step(max_retries=0)
def upload() -> str:
    did.append("upload")
    if weather.bad:
        raise FatalError("The disk is full.")
    return "uploaded"


@workflow
def upload_draft() -> list[str]:
    return [draft("disk"), upload()]


@workflow
def upload_and_ask() -> list[Any]:
    return [upload(), step_hook("seen")]
