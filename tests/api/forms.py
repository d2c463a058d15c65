"""Payload schemas for the tests of the API."""

from __future__ import annotations

from collections.abc import Callable

from django import forms
from pydantic import BaseModel, ConfigDict


class Grade(BaseModel):
    grade: int
    approved: bool = True


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")

    grade: int


class Odd(BaseModel):
    """Has a type that JSON Schema has no words for."""

    call: Callable[[], int]


class GradeForm(forms.Form):
    grade = forms.IntegerField(help_text="From 1 to 6.", min_value=1, max_value=6)
    approved = forms.BooleanField(required=False)
    tags = forms.MultipleChoiceField(choices=[("a", "A"), ("b", "B")], required=False)
