"""Hooks with a schema on their page: its fields, its buttons, its errors; nothing typed is lost."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest
from django import forms
from django.contrib.admin.models import LogEntry
from django.test import Client

from django_stephooks.models import Hook, Run
from tests.factories import HookFactory

from .pages import address, again, answer, buttons, parsed, text_of

pytestmark = pytest.mark.django_db

EVIL = "<script>alert(1)</script>"


class Verdict(pydantic.BaseModel):
    approved: bool
    reviewer: str
    fee: int = pydantic.Field(le=100)
    pages: list[int] = []


class Anything(pydantic.RootModel[Any]):
    pass


class VerdictForm(forms.Form):
    fee = forms.DecimalField(max_value=100)


VERDICT, ANYTHING, DJANGO = (f"{__name__}:{name}" for name in ("Verdict", "Anything", "VerdictForm"))


def form_on(response: Any, field: str) -> Any:
    (form,) = [form for form in parsed(response).forms if field in form.fields]
    return form


@pytest.mark.django_db(transaction=True)
def test_boolean_is_two_buttons_and_the_reviewer_is_not_asked_for(browser: Client) -> None:
    hook = HookFactory(schema=VERDICT)
    form = form_on(browser.get(address(hook)), "fee")
    assert [(b.name, b.value) for b in buttons(form)] == [("decision", "approve"), ("decision", "reject")]
    assert "reviewer" not in form.fields
    sent = {**form.fields, "fee": "7", "decision": "approve"}
    assert browser.post(form.action, sent).status_code == 302
    assert again(hook).payload == {"approved": True, "reviewer": "dana", "fee": 7, "pages": []}
    assert again(hook.run).status == Run.Status.COMPLETED
    assert "Already approved by dana" in text_of(browser.get(address(hook)))
    assert LogEntry.objects.get().get_change_message() == "Approved."


def test_schema_without_a_boolean_has_one_button(browser: Client) -> None:
    hook = HookFactory(schema=DJANGO)
    form = form_on(browser.get(address(hook)), "fee")
    assert [(b.value, b.text) for b in buttons(form)] == [("answer", "Send the answer")]
    assert answer(browser, hook, "answer", fee="12.50").status_code == 302
    assert again(hook).payload == {"fee": "12.50"}
    assert LogEntry.objects.get().get_change_message() == "Answered."


@pytest.mark.parametrize(
    ("schema", "field", "value", "message"),
    [
        (VERDICT, "fee", "many", "Enter a whole number."),
        (VERDICT, "fee", "101", "Ensure this value is less than or equal to 100."),
        (VERDICT, "pages", '[1, "x"]', "1: Input should be a valid integer"),
        (VERDICT, "pages", EVIL, "This is not JSON"),
        (DJANGO, "fee", "101", "Ensure this value is less than or equal to 100."),
        (ANYTHING, "answer", '{"a": ', "This is not JSON: Expecting value"),
        (ANYTHING, "answer", '{"a": NaN}', "payload.a: nan is not JSON"),
        (ANYTHING, "answer", "[" * 100_000, "This is nested too deep."),
        (ANYTHING, "answer", "", "This field is required."),
    ],
)
def test_answer_that_does_not_fit_is_refused_beside_its_field_and_kept(
    browser: Client, schema: str, field: str, value: str, message: str
) -> None:
    hook = HookFactory(schema=schema)
    response = answer(browser, hook, **{"fee": "1", field: value})
    assert response.status_code == 400
    assert message in text_of(response)
    assert form_on(response, field).fields[field] == value
    assert EVIL.encode() not in response.content
    assert b"autofocus" in response.content
    assert again(hook).status == Hook.Status.PENDING
    assert not LogEntry.objects.exists()


def test_late_answer_can_be_copied(browser: Client) -> None:
    hook = HookFactory(schema=VERDICT, cancelled=True)
    response = answer(browser, hook, fee="7", pages="[1, 2]")
    assert response.status_code == 410
    assert "Fee: 7 Pages: [1, 2]" in text_of(response)


def test_strange_characters_in_an_answer_are_stored_and_shown(browser: Client) -> None:
    hook = HookFactory(schema=ANYTHING)
    assert answer(browser, hook, "answer", answer='{"note": "a\\u0000\\ud800"}').status_code == 302
    assert again(hook).payload == {"note": "a\x00\ud800"}
    assert "a\ufffd\ufffd" in text_of(browser.get(address(hook)))
