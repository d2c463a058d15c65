"""A story, and the log of what was really done to it."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.urls import reverse
from django.utils import timezone


class Story(models.Model):
    """What an author handed in, and how far it has come."""

    class Status(models.TextChoices):
        DRAFT = "draft", "Draft"
        CHECKED = "checked", "Facts checked"
        REVIEW = "review", "With the editor"
        PUBLISHED = "published", "Published"
        SPIKED = "spiked", "Spiked"

    class Policy(models.TextChoices):
        """What happens when the editor's deadline passes without an answer."""

        PUBLISH = "publish", "Publish without review"
        SPIKE = "spike", "Spike the story"

    class Trouble(models.TextChoices):
        """What shall go wrong, for those who want to see what happens then."""

        NONE = "", "Nothing"
        SLOW = "slow", "The fact checker is slow: time enough to kill the worker"
        ARCHIVE = "archive", "The archive is closed: the fact check is tried again in an hour"
        NONSENSE = "nonsense", "The fact checker gives up: the run fails"

    headline = models.CharField(max_length=120)
    byline = models.CharField(max_length=80)
    submitted = models.TextField(
        "manuscript", help_text="As on a typewriter: straight quotes, two hyphens for a dash."
    )
    text = models.TextField(blank=True, help_text="In house style.")
    facts = models.JSONField(default=dict, blank=True)
    policy = models.CharField("without an answer", max_length=10, choices=Policy, default=Policy.SPIKE)
    review_seconds = models.PositiveIntegerField("editor's time in seconds", default=24 * 60 * 60)
    trouble = models.CharField(
        "what goes wrong", max_length=10, choices=Trouble, default=Trouble.NONE, blank=True
    )

    status = models.CharField(max_length=10, choices=Status, default=Status.DRAFT)
    verdict = models.TextField(blank=True)
    decided_by = models.CharField(max_length=150, blank=True)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    run = models.OneToOneField(
        "django_stephooks.Run", on_delete=models.SET_NULL, null=True, blank=True, editable=False
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    published_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ("-published_at", "-created_at")
        verbose_name_plural = "stories"

    def __str__(self) -> str:
        return self.headline

    def get_absolute_url(self) -> str:
        return reverse("newsroom:story", args=[self.pk])

    @property
    def is_over(self) -> bool:
        """Nothing more will happen to this story by itself."""
        if self.status in {self.Status.PUBLISHED, self.Status.SPIKED}:
            return True
        return self.run is None or self.run.status in {"completed", "failed", "cancelled"}

    @property
    def stage(self) -> str:
        """Where the story is, in words; what became of its run comes before its own status."""
        if self.run is not None and self.run.status == "failed":
            return "Stuck: its run failed"
        if self.run is not None and self.run.status == "cancelled":
            return "Withdrawn"
        return self.get_status_display()


class LogLine(models.Model):
    """One line of a story's log: a side effect that a step repeated by mistake would repeat too."""

    class Mark(models.TextChoices):
        BEGAN = "began", "began"
        DONE = "done", "done"

    story = models.ForeignKey(Story, on_delete=models.CASCADE, related_name="log")
    step = models.CharField(max_length=40)
    mark = models.CharField(max_length=5, choices=Mark)
    remark = models.CharField(max_length=250, blank=True)
    process_id = models.PositiveIntegerField()
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("pk",)

    def __str__(self) -> str:
        return f"{self.step} {self.mark}"
