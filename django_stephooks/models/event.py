"""Event: a row of a run's journal: what happened, in order."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_stephooks import signals

from .fields import RecordField
from .run import Run


class EventQuerySet(models.QuerySet["Event"]):
    def journal(self) -> EventQuerySet:
        """What a later turn replays from, in order."""
        return self.filter(type__in=Event.REPLAYED).order_by("pk")

    def record(self, *events: Event) -> None:
        """Write them, and tell of them once that is committed."""
        self.bulk_create(events)
        signals.tell_recorded(events, using=self.db)


class Event(models.Model):
    """Something that happened to a run. `call` names the call it is about ("draft:1/approve:1")."""

    class Type(models.TextChoices):
        RUN_STARTED = "run_started", _("run started")
        RUN_SUSPENDED = "run_suspended", _("run suspended")
        RUN_RESUMED = "run_resumed", _("run resumed")
        RUN_RECOVERED = "run_recovered", _("run recovered")
        RUN_COMPLETED = "run_completed", _("run completed")
        RUN_FAILED = "run_failed", _("run failed")
        RUN_CANCELLED = "run_cancelled", _("run cancelled")
        RUN_RETRIED = "run_retried", _("run retried")
        STEP_STARTED = "step_started", _("step started")
        STEP_COMPLETED = "step_completed", _("step completed")
        STEP_FAILED = "step_failed", _("step failed")
        STEP_RETRYING = "step_retrying", _("step retrying")
        STEP_WARNED = "step_warned", _("step warned")
        ONCE_COMPLETED = "once_completed", _("once completed")
        TIMER_STARTED = "timer_started", _("timer started")
        HOOK_CREATED = "hook_created", _("hook created")
        HOOK_RECEIVED = "hook_received", _("hook received")
        HOOK_EXPIRED = "hook_expired", _("hook expired")
        HOOK_CANCELLED = "hook_cancelled", _("hook cancelled")
        HOOK_REOPENED = "hook_reopened", _("hook reopened")
        LINKS_REVOKED = "links_revoked", _("links revoked")

    REPLAYED = (
        Type.STEP_STARTED,
        Type.STEP_COMPLETED,
        Type.STEP_FAILED,
        Type.STEP_RETRYING,
        Type.ONCE_COMPLETED,
        Type.TIMER_STARTED,
        Type.HOOK_CREATED,
        Type.RUN_FAILED,
        Type.RUN_RETRIED,
    )

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events", verbose_name=_("run"))
    type = models.CharField(_("type"), max_length=20, choices=Type)
    call = models.CharField(_("call"), max_length=400, blank=True)
    data = RecordField(_("data"), default=dict)
    created_at = models.DateTimeField(_("at"))

    objects = EventQuerySet.as_manager()

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        default_permissions = ()
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"{self.type} {self.call}".strip()
