"""The form of each kind of schema: what it asks, what it makes of it, and what the step gets."""

from __future__ import annotations

import enum
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import pydantic
import pytest
from django import forms
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import models
from django.http import QueryDict
from django.utils import translation

from django_stephooks import payloads
from django_stephooks.exceptions import HookExpiredError, InvalidPayloadError, SerializationError
from django_stephooks.models import Hook
from django_stephooks.review.forms import answer_form


def form_of(schema: Any, sent: str | None = None, who: Any = "dana") -> Any:
    hook = Hook(schema=payloads.schema_path(schema))
    return answer_form(hook, who, None if sent is None else QueryDict(sent))


def payload_of(schema: Any, sent: str) -> Any:
    form = form_of(schema, sent)
    assert form.is_valid(), form.errors
    return form.payload()


def names(form: Any) -> list[str]:
    return [bound.name for bound in form]


# Without a schema


def test_without_a_schema_a_comment_and_two_buttons() -> None:
    form = form_of(None)
    assert names(form) == ["comment"]
    assert [value for value, _ in form.decisions] == ["approve", "reject"]
    assert payload_of(None, "decision=approve&comment=a%0D%0Ab") == {
        "approved": True,
        "comment": "a\nb",
        "reviewer": "dana",
    }


def test_reviewer_is_who_they_are_whatever_was_sent() -> None:
    assert payload_of(None, "decision=approve&reviewer=boss")["reviewer"] == "dana"
    assert form_of(None, "decision=approve", get_user_model()(username="kim")).who == "kim"


def test_verdict_comes_from_the_button_only() -> None:
    assert payload_of(None, "decision=reject&approved=true&comment=No.")["approved"] is False
    form = form_of(None, "comment=Hm.")
    assert form.errors == {"__all__": ["Choose one of the buttons."]}
    assert form.typed() == "Hm."


def test_answer_may_be_given_as_plain_data() -> None:
    form = answer_form(Hook(), "dana", {"approved": True, "comment": "By hand."})
    assert form.is_valid(), form.errors
    assert form.payload() == {"approved": True, "comment": "By hand.", "reviewer": "dana"}


# Pydantic


class Color(enum.Enum):
    DARK_RED = "r"
    BLUE = "b"


class Size(models.TextChoices):
    SMALL = "s", "Rather small"
    LARGE = "l", "Very large"


class Fee(pydantic.BaseModel):
    approved: bool
    reviewer: str
    comment: str
    amount: Decimal = pydantic.Field(ge=0, max_digits=5, decimal_places=2, description="In euros")
    pages: int = pydantic.Field(1, ge=1, le=9, title="How many pages?")
    weight: float | None = None
    color: Color = Color.BLUE
    size: Size
    vote: Literal["a", 1, True]
    sure: bool | None = None
    urgent: bool = False
    pay_on: date | None = None
    meet_at: datetime | None = None
    tags: list[Literal["x", "y"]] = []
    short: str = pydantic.Field("", max_length=3)
    key: UUID | None = None
    lines: list[int] = []


SENT = "decision=approve&amount=12.50&size=l&vote=true&comment=Fine.&pages=2"


def test_properties_of_a_model_are_fields() -> None:
    form = form_of(Fee)
    assert "approved" not in names(form)
    assert "reviewer" not in names(form)
    kinds = {bound.name: type(bound.field).__name__ for bound in form}
    assert kinds["amount"] == "DecimalField"
    assert kinds["pages"] == "IntegerField"
    assert kinds["weight"] == "FloatField"
    assert kinds["urgent"] == "BooleanField"
    assert kinds["pay_on"] == "DateField"
    assert kinds["meet_at"] == "DateTimeField"
    assert kinds["lines"] == "JsonField"
    assert form["amount"].help_text == "In euros"
    assert form["pages"].label == "How many pages?"
    assert form["pay_on"].label == "Pay on"
    assert form["pages"].initial == 1
    assert dict(form["size"].field.choices) == {"": "---------", "s": "Rather small", "l": "Very large"}
    assert dict(form["color"].field.choices) == {"r": "dark red", "b": "blue"}
    assert form["color"].initial == "b"
    assert 'type="date"' in str(form["pay_on"])
    assert 'min="1"' in str(form["pages"])
    assert isinstance(form["comment"].field.widget, forms.Textarea)


def test_step_gets_the_model_that_was_meant() -> None:
    payload = payload_of(
        Fee,
        f"{SENT}&weight=1.5&color=r&sure=false&urgent=on&pay_on=2026-11-30&meet_at=2026-11-30T12:30"
        "&tags=x&tags=y&short=abc&lines=[1,2]&key=00000000-0000-0000-0000-000000000007",
    )
    assert payloads.to_python(Fee, payload) == Fee(
        approved=True,
        reviewer="dana",
        comment="Fine.",
        amount=Decimal("12.50"),
        pages=2,
        weight=1.5,
        color=Color.DARK_RED,
        size=Size.LARGE,
        vote=True,
        sure=False,
        urgent=True,
        pay_on=date(2026, 11, 30),
        meet_at=datetime(2026, 11, 30, 12, 30, tzinfo=UTC),
        tags=["x", "y"],
        short="abc",
        key=UUID(int=7),
        lines=[1, 2],
    )


def test_what_was_left_empty_takes_the_default() -> None:
    payload = payload_of(Fee, SENT.replace("pages=2", "pages="))
    assert "pages" not in payload
    assert payload["weight"] is None
    model = payloads.to_python(Fee, payload)
    assert (model.pages, model.lines, model.tags, model.comment) == (1, [], [], "Fine.")


@pytest.mark.parametrize(
    ("sent", "errors"),
    [
        ("amount=many", {"amount": "Enter a number."}),
        ("amount=1.234", {"amount": "Decimal input should have no more than 2 decimal places"}),
        ("amount=", {"amount": "This field is required."}),
        ("pages=10", {"pages": "Ensure this value is less than or equal to 9."}),
        ("short=abcd", {"short": "Ensure this value has at most 3 characters (it has 4)."}),
        ("key=x", {"key": "Input should be a valid UUID"}),
        ("size=x", {"size": "Select a valid choice. x is not one of the available choices."}),
        ("lines=[1,", {"lines": "This is not JSON"}),
        ("lines=" + "[" * 100_000, {"lines": "This is nested too deep."}),
        ('lines=["x"]', {"lines": "0: Input should be a valid integer"}),
        ("decision=", {"__all__": "Choose one of the buttons."}),
        ("pay_on=tomorrow", {"pay_on": "Enter a valid date."}),
    ],
)
def test_errors_stand_beside_their_fields_and_what_was_typed_is_kept(
    sent: str, errors: dict[str, str]
) -> None:
    form = form_of(Fee, SENT)
    for name, value in QueryDict(sent).items():
        form.data[name] = value
    if sent == "decision=":
        form = form_of(Fee, SENT.replace("decision=approve", ""))
    assert not form.is_valid()
    assert form.errors.keys() == errors.keys()
    for name, message in errors.items():
        assert message in str(form.errors[name][0])
        if name != "__all__":
            assert form[name].value() == QueryDict(sent)[name]


class Nested(pydantic.BaseModel):
    fee: Fee
    decision: str = "keep"
    key: str = pydantic.Field(alias="the-key", min_length=1)


def test_nested_model_is_asked_for_as_json_and_checked() -> None:
    form = form_of(Nested, "fee={}&the-key=k")
    assert not form.is_valid()
    assert "amount: Field required" in form.errors["fee"]
    assert form.decisions[0][0] == "answer"


def test_property_may_have_a_name_that_the_page_uses_itself() -> None:
    assert form_of(Nested)["decision"].html_name == "answer-decision"
    form = form_of(Nested, "decision=answer&answer-decision=drop&fee=1&the-key=")
    assert not form.is_valid()
    assert form.errors == {"the-key": ["This field is required."]}


class Numbers(pydantic.RootModel[list[int]]):
    pass


class Tree(pydantic.BaseModel):
    value: int
    children: list[Tree] = []


class Checked(pydantic.BaseModel):
    first: int
    second: int

    @pydantic.model_validator(mode="after")
    def ordered(self) -> Checked:
        if self.first > self.second:
            raise ValueError("The second comes first.")
        return self


def test_model_that_is_no_table_is_asked_for_as_a_whole() -> None:
    assert names(form_of(Numbers)) == ["answer"]
    assert payload_of(Numbers, "answer=[1, 2]") == [1, 2]
    form = form_of(Numbers, 'answer=["x"]')
    form.is_valid()
    form.refuse(InvalidPayloadError("No.", errors={"0": ["not a number"], "__all__": ["bad"]}))
    assert form.errors["answer"] == ["0: not a number", "bad"]


def test_model_that_contains_itself() -> None:
    assert names(form_of(Tree)) == ["value", "children"]
    assert payload_of(Tree, 'value=1&children=[{"value": 2}]') == {"value": 1, "children": [{"value": 2}]}


def test_error_of_no_field_stands_above_them() -> None:
    form = form_of(Checked, "first=2&second=1")
    assert not form.is_valid()
    assert form.non_field_errors() == ["The second comes first."]


class Pair(enum.Enum):
    FIRST = (1, 2)


class Pairs(pydantic.BaseModel):
    pair: Pair | None = None


def test_choice_of_what_is_no_single_value_is_asked_for_as_json() -> None:
    assert type(form_of(Pairs)["pair"].field).__name__ == "JsonField"
    assert payload_of(Pairs, "pair=") == {"pair": None}


class Odd(pydantic.BaseModel):
    approved: Literal["yes", "no"]
    reviewer: int = 7
    mixed: Literal["1", 1, None]
    only: Literal["this"] = "this"
    many: dict[str, int] = {}


def test_approved_and_reviewer_of_another_kind_are_asked_for() -> None:
    form = form_of(Odd)
    assert names(form) == ["approved", "reviewer", "mixed", "only", "many"]
    assert not form.has_verdict
    assert payload_of(Odd, 'approved=yes&reviewer=&mixed="1"&only=this&many=')["mixed"] == "1"
    assert payload_of(Odd, "approved=yes&reviewer=&mixed=1&only=this&many=")["mixed"] == 1
    assert payload_of(Odd, "approved=no&mixed=&only=this") == {
        "approved": "no",
        "mixed": None,
        "only": "this",
    }


class Unspeakable(pydantic.BaseModel):
    model_config = {"arbitrary_types_allowed": True}
    thing: forms.Form


class Nothing(pydantic.BaseModel):
    pass


def test_model_without_a_json_schema_and_model_without_properties() -> None:
    assert names(form_of(Unspeakable)) == ["answer"]
    assert names(form_of(Nothing)) == []
    assert payload_of(Nothing, "decision=answer") == {}


# Django forms


class Letter(forms.Form):
    approved = forms.BooleanField(required=False)
    reviewer = forms.CharField()
    title = forms.CharField(min_length=2)
    fee = forms.DecimalField(localize=True)
    day = forms.DateField()
    when = forms.SplitDateTimeField(required=False)
    wait = forms.DurationField(required=False)
    copies = forms.TypedChoiceField(choices=[(1, "one"), (2, "two")], coerce=int)
    to = forms.ModelMultipleChoiceField(Group.objects.all(), required=False)
    boss = forms.ModelChoiceField(Group.objects.all(), required=False)
    data = forms.JSONField(required=False)
    fixed = forms.CharField(disabled=True, initial="as it is")
    maybe = forms.NullBooleanField(required=False)

    def clean_title(self) -> str:
        return f"Re: {self.cleaned_data['title']}"


@pytest.mark.django_db
@pytest.mark.parametrize("language", ["en", "de"])
def test_django_form_gives_the_step_what_it_would_have_cleaned(language: str) -> None:
    one, two = Group.objects.create(name="one"), Group.objects.create(name="two")
    fee, day = ("12.5", "11/30/2026") if language == "en" else ("12,5", "30.11.2026")
    sent = (
        f"decision=reject&title=Hello&fee={fee}&day={day}&when_0=2026-11-30&when_1=12:30&wait=60"
        f'&copies=2&to={one.pk}&to={two.pk}&boss={one.pk}&data="text"&fixed=changed&maybe=true'
    )
    with translation.override(language):
        payload = payload_of(Letter, sent)
    # Cleaned again by a worker, who may speak another language.
    cleaned = payloads.to_python(Letter, payload)
    assert cleaned["approved"] is False
    assert cleaned["reviewer"] == "dana"
    assert cleaned["title"] == "Re: Hello"
    assert cleaned["fee"] == Decimal("12.5")
    assert cleaned["day"] == date(2026, 11, 30)
    assert cleaned["when"] == datetime(2026, 11, 30, 12, 30, tzinfo=UTC)
    assert cleaned["wait"] == timedelta(minutes=1)
    assert cleaned["copies"] == 2
    assert set(cleaned["to"]) == {one, two}
    assert cleaned["boss"] == one
    assert cleaned["data"] == "text"
    assert cleaned["fixed"] == "as it is"
    assert cleaned["maybe"] is True


class MustAgree(forms.Form):
    approved = forms.BooleanField()


def test_error_about_a_field_that_is_not_shown_is_shown_all_the_same() -> None:
    form = form_of(MustAgree, "decision=reject")
    assert not form.is_valid()
    assert form.non_field_errors() == ["approved: This field is required."]


def test_only_refusals_of_the_payload_are_shown_in_the_form() -> None:
    form = form_of(None, "decision=approve")
    assert form.is_valid()
    assert not form.refuse(HookExpiredError("Too late."))
    assert form.refuse(SerializationError("payload.comment: too long"))
    assert form.errors == {"comment": ["payload.comment: too long"]}


def test_what_was_typed_can_be_read_off() -> None:
    assert form_of(Fee).typed() == ""
    assert form_of(Fee, "comment=Hm.&amount=3&lines= ").typed() == "Comment: Hm.\nAmount: 3"
