"""Payload schemas: written down, found again, and answers checked against them."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from decimal import Decimal
from typing import Any

import pydantic
import pytest
from django import forms

from django_stephooks.exceptions import InvalidPayloadError, StepHooksError
from django_stephooks.payloads import load_schema, schema_path, to_python, validate


class Price(pydantic.BaseModel):
    amount: Decimal
    currency: str = "EUR"


class Review(pydantic.BaseModel):
    approved: bool
    until: dt.datetime | None = None
    prices: list[Price] = []
    note: str = ""

    @pydantic.model_validator(mode="after")
    def a_rejection_says_why(self) -> Review:
        if not self.approved and not self.note:
            raise ValueError("A rejection needs a note.")
        return self


class StrictReview(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    day: dt.date
    amount: Decimal


class ReviewForm(forms.Form):
    class Inner(forms.Form):
        word = forms.CharField()

    approved = forms.BooleanField(required=False)
    note = forms.CharField(required=False)
    stars = forms.IntegerField(required=False, max_value=5)
    day = forms.DateField(required=False)
    extra = forms.JSONField(required=False)
    tags = forms.MultipleChoiceField(required=False, choices=[("a", "A"), ("1", "One")])

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if data.get("note") == "spam":
            raise forms.ValidationError("No spam.")
        return data


class PrefixedForm(forms.Form):
    prefix = "review"
    note = forms.CharField()


class DynamicForm(forms.Form):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["added"] = forms.IntegerField()


def errors_of(schema: Any, payload: Any) -> dict[str, list[str]]:
    with pytest.raises(InvalidPayloadError) as refusal:
        validate(schema, payload)
    with pytest.raises(InvalidPayloadError) as again:
        to_python(schema, payload)
    assert again.value.errors == refusal.value.errors
    assert refusal.value.__context__ is None
    return refusal.value.errors


@pytest.mark.parametrize("schema", [Review, ReviewForm, ReviewForm.Inner, None])
def test_a_schema_is_found_again_by_its_path(schema: Any) -> None:
    assert load_schema(schema_path(schema)) is schema


def test_the_path_names_module_and_class() -> None:
    assert schema_path(ReviewForm.Inner) == f"{__name__}:ReviewForm.Inner"
    assert schema_path(None) == ""


@pytest.mark.parametrize("junk", [dict, Review(approved=True), "tests:Review", {"type": "object"}])
def test_what_is_no_schema_is_a_type_error(junk: Any) -> None:
    with pytest.raises(TypeError, match="a pydantic model or a Django form class"):
        schema_path(junk)


def test_a_schema_inside_a_function_is_refused() -> None:
    class Local(pydantic.BaseModel):
        word: str

    with pytest.raises(ValueError, match="define it at the top level of a module"):
        schema_path(Local)


@pytest.mark.parametrize(
    "path",
    [
        f"{__name__}:Gone",
        f"{__name__}:Price.gone",
        f"{__name__}:pytest",
        "no.such.module:Review",
        "builtins:dict",
        "os:system",
        ":",
        "x",
        "a b:c",
    ],
)
def test_a_path_that_leads_nowhere_is_one_of_our_errors(path: str) -> None:
    with pytest.raises(StepHooksError, match="The payload schema"):
        load_schema(path)


def test_without_a_schema_anything_fits() -> None:
    payload = {"$t": ["x", None]}
    validate(None, payload)
    assert to_python(None, payload) is payload


def test_pydantic_gives_the_typed_model_from_json() -> None:
    review = to_python(
        Review,
        {"approved": True, "until": "2026-11-30T09:00:00Z", "prices": [{"amount": "1.10"}]},
    )
    assert review == Review(
        approved=True,
        until=dt.datetime(2026, 11, 30, 9, tzinfo=dt.UTC),
        prices=[Price(amount=Decimal("1.10"))],
    )


def test_a_strict_model_reads_json_as_json() -> None:
    model = to_python(StrictReview, {"day": "2026-11-30", "amount": "1.10"})
    assert (model.day, model.amount) == (dt.date(2026, 11, 30), Decimal("1.10"))


def test_pydantic_errors_are_listed_by_field() -> None:
    errors = errors_of(Review, {"until": "tomorrow", "prices": [{"amount": "much"}]})
    assert errors["approved"] == ["Field required"]
    assert set(errors) == {"approved", "until", "prices.0.amount"}


def test_an_error_of_no_field_is_under_all() -> None:
    assert errors_of(Review, {"approved": False}) == {"__all__": ["A rejection needs a note."]}
    assert list(errors_of(Review, [])) == ["__all__"]
    assert list(errors_of(Review, None)) == ["__all__"]


def test_what_pydantic_can_not_read_as_json_is_still_checked_by_field() -> None:
    assert list(errors_of(Review, {"approved": True, "note": 10**5000})) == ["note"]
    assert list(errors_of(StrictReview, {"day": "\ud800", "amount": "1"})) == ["day"]
    assert to_python(Review, {"approved": True, "note": "\ud800"}).note == "\ud800"


def test_the_refusal_does_not_repeat_the_payload() -> None:
    with pytest.raises(InvalidPayloadError) as refusal:
        validate(Review, {"approved": "secret words"})
    assert "secret words" not in str(refusal.value)
    assert "approved: " in str(refusal.value)


def test_a_form_gives_its_cleaned_data() -> None:
    payload = {
        "approved": True,
        "note": "fine",
        "stars": 5,
        "day": "2026-11-30",
        "extra": {"deep": [1, 1.5]},
        "tags": ["a", 1],
        "unknown": {"ignored": True},
    }
    assert to_python(ReviewForm, payload) == {
        "approved": True,
        "note": "fine",
        "stars": 5,
        "day": dt.date(2026, 11, 30),
        "extra": {"deep": [1, 1.5]},
        "tags": ["a", "1"],
    }


def test_false_and_null_are_what_they_are_to_a_form() -> None:
    cleaned = to_python(ReviewForm, {"approved": False, "stars": None, "extra": 7})
    assert (cleaned["approved"], cleaned["stars"], cleaned["extra"]) == (False, None, 7)


def test_form_errors_are_listed_by_field() -> None:
    errors = errors_of(ReviewForm, {"stars": 6, "day": 20261130, "tags": "a", "note": "a\x00b"})
    assert set(errors) == {"stars", "day", "tags", "note"}
    assert errors_of(ReviewForm, {"note": "spam"}) == {"__all__": ["No spam."]}


@pytest.mark.parametrize("payload", [None, "yes", 1, [], [{"note": "x"}]])
def test_a_form_takes_a_json_object_only(payload: Any) -> None:
    assert list(errors_of(ReviewForm, payload)) == ["__all__"]


@pytest.mark.parametrize("value", [["x"], {"x": 1}])
def test_a_form_field_takes_no_structure(value: Any) -> None:
    assert errors_of(ReviewForm, {"note": value, "day": value}) == {
        "note": ["Enter a single value."],
        "day": ["Enter a single value."],
    }
    assert list(errors_of(ReviewForm, {"tags": {"a": 1}})) == ["tags"]


def test_a_form_with_a_prefix_takes_the_names_of_its_fields() -> None:
    assert to_python(PrefixedForm, {"note": "x"}) == {"note": "x"}


def test_fields_that_a_form_adds_to_itself_are_checked_too() -> None:
    assert to_python(DynamicForm, {"added": 3}) == {"added": 3}
    assert list(errors_of(DynamicForm, {})) == ["added"]


def test_pydantic_is_not_imported_for_forms() -> None:
    program = (
        "import sys; from django.conf import settings; settings.configure(USE_I18N=False)\n"
        "from django import forms; from django_stephooks import codec, payloads\n"
        "class Answer(forms.Form): word = forms.CharField()\n"
        "assert payloads.to_python(Answer, {'word': 'x'}) == {'word': 'x'}\n"
        "assert payloads.schema_path(Answer) == '__main__:Answer'\n"
        "assert codec.loads(codec.dumps((1,))) == (1,) == codec.printable((1,))\n"
        "assert 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
