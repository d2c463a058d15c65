"""The form with which an author hands in a story."""

from __future__ import annotations

from typing import Any

from django import forms

from .models import Story


class StoryForm(forms.ModelForm):
    """A manuscript, the editor's deadline, what happens at it, and what shall go wrong."""

    review_seconds = forms.TypedChoiceField(
        label="The editor's deadline",
        coerce=int,
        choices=[
            (3, "In three seconds (to see it pass)"),
            (120, "In two minutes"),
            (60 * 60, "In an hour"),
            (24 * 60 * 60, "Tomorrow"),
        ],
        initial=24 * 60 * 60,
    )

    class Meta:
        model = Story
        fields = ("headline", "byline", "submitted", "review_seconds", "policy", "trouble")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["submitted"].widget.attrs["rows"] = 8
        self.fields["policy"].label = "If the editor does not answer"
        self.fields["trouble"].label = "What shall go wrong"
        # "Nothing" is a choice, not a missing one: no row of dashes above it.
        self.fields["trouble"].choices = Story.Trouble.choices
