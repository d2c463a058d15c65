"""Conversations with readers who have no account."""

from __future__ import annotations

import uuid

from django.db import models
from django.urls import reverse
from django.utils import timezone

from django_stephooks.models import Run

CREDITS = 5
LONGEST_MESSAGE = 500


class Conversation(models.Model):
    """What one reader and the desk say to each other. Whoever knows its id may read it and go on with it."""

    # Nobody guesses the 122 random bits of another reader's.
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    credits = models.PositiveSmallIntegerField(default=CREDITS, help_text="Questions still to be asked.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    def __str__(self) -> str:
        return f"A reader's conversation of {self.created_at:%B %d, %H:%M}"

    def get_absolute_url(self) -> str:
        return reverse("support:conversation", args=[self.pk])


class Exchange(models.Model):
    """One message of the reader's, the run that answers it, and in the end what was said."""

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="exchanges")
    message = models.CharField(max_length=LONGEST_MESSAGE)
    said = models.JSONField(
        null=True, blank=True, help_text='The whole answer: [{"who": …, "name": …, "text": …}].'
    )
    is_charged = models.BooleanField(default=False)
    run = models.OneToOneField(Run, on_delete=models.SET_NULL, null=True, editable=False, related_name="+")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ("pk",)

    def __str__(self) -> str:
        return self.message

    @property
    def is_open(self) -> bool:
        """Its answer is being written, or waits for a colleague."""
        return self.said is None and self.run is not None and not self.run.is_finished
