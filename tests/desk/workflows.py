"""Workflows: one that asks for each kind of answer and says what its step was given, and eventful ones."""

from __future__ import annotations

from datetime import date
from typing import Any

import pydantic
from django import forms

from django_stephooks import emit, once, sleep, step, step_hook, workflow


class Verdict(pydantic.BaseModel):
    """What every door can ask for."""

    approved: bool
    comment: str = ""
    reviewer: str


class VerdictForm(forms.Form):
    approved = forms.BooleanField(required=False)
    comment = forms.CharField(required=False, widget=forms.Textarea)
    reviewer = forms.CharField()


class Strict(pydantic.BaseModel):
    """Takes nothing that it has not asked for."""

    model_config = pydantic.ConfigDict(extra="forbid")

    approved: bool
    comment: str


class Plan(pydantic.BaseModel):
    """More than yes or no."""

    approved: bool
    comment: str
    reviewer: str
    grade: int = pydantic.Field(ge=1, le=6)
    on: date


class PlanForm(forms.Form):
    approved = forms.BooleanField(required=False)
    comment = forms.CharField(widget=forms.Textarea)
    reviewer = forms.CharField()
    grade = forms.IntegerField(min_value=1, max_value=6)
    on = forms.DateField()


SCHEMAS: dict[str, Any] = {
    "none": None,
    "pydantic": Verdict,
    "form": VerdictForm,
    "strict": Strict,
    "pydantic with more": Plan,
    "form with more": PlanForm,
}


@step
def ask(kind: str) -> dict[str, Any]:
    given = step_hook("approve", title="Publish 'Fog'?", payload_schema=SCHEMAS[kind])
    fields = given.model_dump() if isinstance(given, pydantic.BaseModel) else given
    return {"type": type(given).__name__, "fields": fields}


@workflow
def asking(kind: str) -> dict[str, Any]:
    return ask(kind)


# What is in the way of `eventful` and `telling`, once each.
obstacles: list[str] = []


def stumble_over(what: str) -> None:
    if what in obstacles:
        obstacles.remove(what)
        raise ValueError(what)


@step(max_retries=1, retry_delay="1m")
def prepare() -> str:
    once("paper", str)
    once("reading", emit, "paper")
    stumble_over("a stone")
    return "ready"


@step
def careless() -> Any:
    """Catches what it should let pass."""
    try:
        return step_hook("approve", timeout="1h")
    except BaseException:  # noqa: BLE001
        return None


@step(max_retries=0)
def finish() -> None:
    stumble_over("a wall")


@workflow
def eventful() -> Any:
    prepare()
    sleep("1m")
    answer = careless()
    finish()
    return answer


@step(max_retries=0)
def telling() -> Any:
    return step_hook("approve", on_created=lambda token: stumble_over("a deaf ear"))
