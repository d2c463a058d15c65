"""Hook: a question waiting for an answer, and the status changes it can go through."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_stephooks import codec
from django_stephooks.tokens import make_token
from django_stephooks.types import SYSTEM_DEADLINE, SYSTEM_RACE

from .event import Event
from .fields import Encoded, RecordField
from .run import Run


def received(payload: Any, *, by: Any, label: str, channel: str, now: datetime) -> dict[str, Any]:
    """What an answer does to the columns of a pending hook (`Statements.receive`)."""
    return {
        "status": Hook.Status.RECEIVED,
        "payload": payload,
        "answered_by_id": by,
        "answered_by_label": label,
        "channel": channel,
        "settled_at": now,
    }


class HookQuerySet(models.QuerySet["Hook"]):
    """Questions about hooks, and every change of `Hook.status`; a change returns how many rows it changed."""

    def pending(self) -> HookQuerySet:
        return self.filter(status=Hook.Status.PENDING)

    def with_deadline(self) -> HookQuerySet:
        """Those that will expire if nobody answers."""
        # What is named, and not what is left out, is what the partial index knows.
        return self.pending().filter(expires_at__isnull=False, on_timeout__in=Hook.EXPIRING)

    def past_deadline(self, now: datetime) -> HookQuerySet:
        """Those that count as expired, whether or not a sweep has come by."""
        return self.with_deadline().filter(expires_at__lte=now)

    def expired(self, now: datetime) -> HookQuerySet:
        """Whether or not a sweep has come by."""
        late = Q(status=Hook.Status.PENDING, expires_at__lte=now, on_timeout__in=Hook.EXPIRING)
        return self.filter(Q(status=Hook.Status.EXPIRED) | late)

    def waiting(self, now: datetime) -> HookQuerySet:
        """Those that can be answered now."""
        return self.pending().filter(
            Q(expires_at=None) | Q(expires_at__gt=now) | Q(on_timeout=Hook.OnTimeout.SUSPEND)
        )

    def most_urgent(self) -> HookQuerySet:
        """Soonest deadline first, then those without one by age: as the index has those that wait."""
        return self.order_by(F("expires_at").asc(nulls_last=True), "pk")

    def waiting_first(self) -> HookQuerySet:
        """Waiting ones first, the most urgent first; the rest by what was settled last."""
        return self.order_by(
            models.Case(models.When(status=Hook.Status.PENDING, then=0), default=1),
            F("settled_at").desc(nulls_last=True),
            F("expires_at").asc(nulls_last=True),
            "pk",
        )

    def expire(self, *, now: datetime) -> list[Hook]:
        """Settle those past their deadline, and return them. The caller holds their runs' rows."""
        label = SYSTEM_DEADLINE.label
        return self.past_deadline(now)._settle(Hook.Status.EXPIRED, label, {"by": label}, now)

    def cancel(self, *, now: datetime, reason: str) -> list[Hook]:
        """Nobody waits for these any more. The caller holds their runs' rows."""
        return self.pending()._settle(Hook.Status.CANCELLED, "", {"reason": reason}, now)

    def racing_with(self, hook: Hook) -> HookQuerySet:
        """The others of its race; locked, for who holds the run's row and read before that."""
        others = self.filter(run=hook.run_id, race=hook.race).exclude(pk=hook.pk)
        return others.order_by("pk").select_for_update()

    def lose_to(self, first: Hook, *, by: str, now: datetime) -> list[Hook]:
        """Somebody else was asked too, and has answered. The caller holds the run's row."""
        facts = {"reason": "another was answered first", "first": first.call, "by": by}
        return self.pending()._settle(Hook.Status.CANCELLED, SYSTEM_RACE.label, facts, now)

    def _settle(self, status: Hook.Status, label: str, data: dict[str, Any], now: datetime) -> list[Hook]:
        hooks = list(self.only("pk", "run_id", "call", "name"))
        if hooks:
            pending = Hook.objects.using(self.db).filter(pk__in=[hook.pk for hook in hooks]).pending()
            pending.update(status=status, answered_by_label=label, settled_at=now)
            told = Encoded(codec.dumps(data))
            Event.objects.using(self.db).record(
                *(
                    Event(
                        run_id=hook.run_id,
                        type=f"hook_{status}",
                        call=hook.call,
                        data=told,
                        created_at=now,
                    )
                    for hook in hooks
                )
            )
        return hooks

    def reopen(self) -> int:
        return self.filter(status=Hook.Status.CANCELLED).update(status=Hook.Status.PENDING, settled_at=None)

    def revoke_tokens(self) -> int:
        return self.update(token_version=F("token_version") + 1)


class Hook(models.Model):
    """A question that a run asks a person, made by `step_hook()`.

    The deadline, `expires_at`, is fixed when the hook is made. `notified_at` is set once
    `on_created` has finished. `settled_at` is when it was received, expired or cancelled. Hooks of a run
    with the same `race` are asked at once, and the first answer cancels the others (`wait_first`).
    """

    class Status(models.TextChoices):
        PENDING = "pending", _("pending")
        RECEIVED = "received", _("received")
        EXPIRED = "expired", _("expired")
        CANCELLED = "cancelled", _("cancelled")

    class OnTimeout(models.TextChoices):
        RAISE = "raise", _("raise an error")
        RETURN = "return", _("go on without an answer")
        SUSPEND = "suspend", _("keep waiting")

    EXPIRING = (OnTimeout.RAISE, OnTimeout.RETURN)

    public_id = models.UUIDField(_("public id"), default=uuid.uuid4, unique=True, editable=False)
    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="hooks", db_index=False, verbose_name=_("run")
    )
    call = models.CharField(_("call"), max_length=400)
    name = models.CharField(_("name"), max_length=100)
    status = models.CharField(_("status"), max_length=10, choices=Status, default=Status.PENDING)
    title = models.CharField(_("title"), max_length=500, blank=True)
    description = models.TextField(_("description"), blank=True)
    context = RecordField(_("context"), null=True)
    reviewers = RecordField(_("reviewers"), null=True)
    schema = models.CharField(_("payload schema"), max_length=300, blank=True)
    on_timeout = models.CharField(
        _("at the deadline"), max_length=7, choices=OnTimeout, default=OnTimeout.RAISE
    )
    created_at = models.DateTimeField(_("asked at"))
    expires_at = models.DateTimeField(_("deadline"), null=True, blank=True)
    notified_at = models.DateTimeField(_("notified at"), null=True, blank=True)
    settled_at = models.DateTimeField(_("settled at"), null=True, blank=True)
    payload = RecordField(_("payload"), null=True)
    answered_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("answered by"),
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        db_index=False,
    )
    answered_by_label = models.CharField(_("answered by"), max_length=200, blank=True)
    channel = models.CharField(_("channel"), max_length=20, blank=True)
    token_version = models.PositiveIntegerField(_("token version"), default=1)
    # Absent for almost all, and costs nothing then.
    race = models.CharField(_("race"), max_length=400, null=True, blank=True, editable=False)

    objects = HookQuerySet.as_manager()

    class Meta:
        verbose_name = _("hook")
        verbose_name_plural = _("hooks")
        default_permissions = ("view",)
        permissions = [
            ("review_hook", "Can answer hooks"),
            ("review_any_hook", "Can answer hooks assigned to others"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["run", "call"], name="stephooks_hook_call"),
            models.CheckConstraint(
                name="stephooks_hook_settled",
                condition=Q(status="pending", settled_at=None)
                | Q(status__in=("received", "expired", "cancelled"), settled_at__isnull=False),
            ),
        ]
        indexes = [
            # For lists: what waits, the most urgent first.
            models.Index(
                fields=["expires_at", "id"],
                name="stephooks_hook_waiting",
                condition=Q(status="pending"),
            ),
            # For the sweep, which else would walk over all that stay open behind their deadline.
            models.Index(
                fields=["expires_at", "id", "run"],
                name="stephooks_hook_deadline",
                condition=Q(status="pending", on_timeout__in=("raise", "return"), expires_at__isnull=False),
            ),
            # For lists: what is rare among millions. A hook that is answered never comes in here.
            models.Index(
                fields=["status", "id"],
                name="stephooks_hook_ended",
                condition=Q(status__in=("expired", "cancelled")),
            ),
        ]

    def __str__(self) -> str:
        return self.title or self.name.replace("_", " ")

    @property
    def token(self) -> str:
        """The unguessable string that names this hook to the outside; computed, never stored."""
        return make_token(self.public_id, version=self.token_version)

    def is_past_deadline(self, now: datetime | None = None) -> bool:
        """Counts as expired, whether or not a sweep has come by."""
        return (
            self.status == self.Status.PENDING
            and self.expires_at is not None
            and self.expires_at <= (now or timezone.now())
            and self.on_timeout != self.OnTimeout.SUSPEND
        )

    def is_overdue(self, now: datetime | None = None) -> bool:
        """Past its deadline and still to be answered (`on_timeout="suspend"`)."""
        return (
            self.status == self.Status.PENDING
            and self.expires_at is not None
            and self.expires_at <= (now or timezone.now())
            and self.on_timeout == self.OnTimeout.SUSPEND
        )

    def is_waiting(self, now: datetime | None = None) -> bool:
        return self.status == self.Status.PENDING and not self.is_past_deadline(now)
