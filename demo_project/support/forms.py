"""The one field that a reader fills in."""

from __future__ import annotations

from django import forms

from .models import LONGEST_MESSAGE


class MessageForm(forms.Form):
    message = forms.CharField(
        label="Your question",
        max_length=LONGEST_MESSAGE,
        widget=forms.Textarea(attrs={"rows": 3}),
    )
