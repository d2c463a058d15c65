"""A question may say what an answer must look like: by a pydantic model, or a Django form."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pydantic
import pytest
from django import forms

from django_stephooks import (
    STEP_HOOK_TIMEOUT,
    InvalidPayloadError,
    once,
    resume_hook,
    sleep,
    step,
    step_hook,
    workflow,
)
from django_stephooks.models import Hook, Run
from django_stephooks.services.sweep import sweep
from tests.clock import Clock

from .lookups import events_of, hook_of, worked

pytestmark = pytest.mark.django_db


class Verdict(pydantic.BaseModel):
    approved: bool
    publish_on: date | None = None
    fee: Decimal = Decimal("0.00")


class VerdictForm(forms.Form):
    approved = forms.BooleanField(required=False)
    publish_on = forms.DateField()
    fee = forms.DecimalField(decimal_places=2)

    def clean_fee(self) -> Decimal:
        fee: Decimal = self.cleaned_data["fee"]
        if fee < 0:
            raise forms.ValidationError("A fee is not negative.")
        return fee


SCHEMAS = {"pydantic": Verdict, "form": VerdictForm}


@step
def judge(kind: str) -> list[Any]:
    verdict = step_hook("verdict", payload_schema=SCHEMAS[kind], timeout="1h", on_timeout="return")
    sleep("1m")  # so that the answer is read in a second turn too
    return [type(verdict).__name__, once("kept", lambda: verdict)]


@workflow
def judging(kind: str) -> Any:
    return judge(kind)


GOOD = {"approved": True, "publish_on": "2026-11-30", "fee": "12.50"}


def test_a_step_gets_the_typed_model(clock: Clock) -> None:
    run = judging.start("pydantic")
    assert hook_of(worked(run)).schema == f"{Verdict.__module__}:Verdict"
    resume_hook(hook_of(worked(run)).token, GOOD)
    worked(run)
    clock.advance("1m")
    sweep()
    assert worked(run).result == [
        "Verdict",
        Verdict(approved=True, publish_on=date(2026, 11, 30), fee=Decimal("12.50")),
    ]


def test_a_step_gets_the_forms_cleaned_data(clock: Clock) -> None:
    run = judging.start("form")
    resume_hook(hook_of(worked(run)).token, GOOD)
    worked(run)
    clock.advance("1m")
    sweep()
    assert worked(run).result == [
        "dict",
        {"approved": True, "publish_on": date(2026, 11, 30), "fee": Decimal("12.50")},
    ]


@pytest.mark.parametrize("kind", SCHEMAS)
def test_what_is_stored_is_the_answer_as_it_was_given(kind: str) -> None:
    run = judging.start(kind)
    hook = hook_of(worked(run))
    resume_hook(hook.token, GOOD)
    hook.refresh_from_db()
    assert hook.payload == GOOD


@pytest.mark.parametrize(
    ("kind", "payload", "errors"),
    [
        ("form", {**GOOD, "publish_on": "soon"}, {"publish_on": ["Enter a valid date."]}),
        ("form", {**GOOD, "fee": "-1"}, {"fee": ["A fee is not negative."]}),
        (
            "form",
            {},
            {"publish_on": ["This field is required."], "fee": ["This field is required."]},
        ),
        ("form", "yes", {"__all__": ["Expected a JSON object with the form's fields."]}),
        (
            "pydantic",
            {"approved": "perhaps"},
            {"approved": ["Input should be a valid boolean, unable to interpret input"]},
        ),
        ("pydantic", {}, {"approved": ["Field required"]}),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_and_uses_nothing_up(
    kind: str, payload: Any, errors: dict[str, list[str]]
) -> None:
    run = judging.start(kind)
    hook = hook_of(worked(run))
    for _ in range(2):
        with pytest.raises(InvalidPayloadError) as refused:
            resume_hook(hook.token, payload)
        assert refused.value.errors == errors

    hook.refresh_from_db()
    assert (hook.status, hook.payload, hook.settled_at) == (Hook.Status.PENDING, None, None)
    assert worked(run).status == Run.Status.SUSPENDED
    assert "hook_received" not in events_of(run)

    assert resume_hook(hook.token, GOOD).status == "received"  # the link is not burnt


def test_a_deadline_needs_no_answer_that_fits(clock: Clock) -> None:
    run = worked(judging.start("pydantic"))
    for duration in ("1h", "1m"):
        clock.advance(duration)
        sweep()
        worked(run)
    assert worked(run).result == ["StepHookTimeout", STEP_HOOK_TIMEOUT]


@step
def asks_with_nonsense(kind: str) -> str:
    class Local(pydantic.BaseModel):
        pass

    schema = {"text": "yes or no", "instance": VerdictForm(), "local": Local}[kind]
    try:
        step_hook("verdict", payload_schema=schema)
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "asked"


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("text", "TypeError: payload_schema takes a pydantic model or a Django form class, not 'yes or no'."),
        ("instance", "TypeError: payload_schema takes a pydantic model or a Django form class, not <"),
        ("local", "ValueError: The class asks_with_nonsense.<locals>.Local can not be found again as"),
    ],
)
def test_what_is_no_schema_is_refused_when_asking(kind: str, sentence: str) -> None:
    run = worked(asks_with_nonsense.start(kind))
    assert run.result.startswith(sentence)
    assert not Hook.objects.exists()
