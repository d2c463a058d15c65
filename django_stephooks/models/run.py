"""Run: one execution of a workflow, and the status changes it can go through."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.contenttypes.fields import GenericForeignKey
from django.contrib.contenttypes.models import ContentType
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from .fields import RecordField

# What a turn does to the columns of the run that it holds (`Statements.settle`).


def leased(until: datetime) -> dict[str, Any]:
    return {"due_at": until}


def suspended(due_at: datetime | None) -> dict[str, Any]:
    return {"status": Run.Status.SUSPENDED, "due_at": due_at, "recoveries": 0}


def handed_back(now: datetime) -> dict[str, Any]:
    """Ready again at once: the turn ends although there is more to do."""
    return {"status": Run.Status.PENDING, "due_at": now}


def completed(result: Any, now: datetime) -> dict[str, Any]:
    return {
        "status": Run.Status.COMPLETED,
        "due_at": None,
        "finished_at": now,
        "result": result,
        "error": None,
    }


def failed(error: Any, now: datetime) -> dict[str, Any]:
    return {"status": Run.Status.FAILED, "due_at": None, "finished_at": now, "error": error}


class RunQuerySet(models.QuerySet["Run"]):
    """Questions about runs, and the changes of `Run.status` from outside a turn.

    A change is one conditional UPDATE, so it is right on databases without row locks too;
    it returns the number of rows that it changed.
    """

    def active(self) -> RunQuerySet:
        return self.filter(status__in=Run.ACTIVE)

    def ready(self) -> RunQuerySet:
        return self.filter(status=Run.Status.PENDING)

    def with_timer(self) -> RunQuerySet:
        return self.filter(status=Run.Status.SUSPENDED, due_at__isnull=False)

    def timers_due(self, now: datetime) -> RunQuerySet:
        return self.with_timer().filter(due_at__lte=now)

    def leased(self) -> RunQuerySet:
        return self.filter(status=Run.Status.RUNNING)

    def lease_ended(self, now: datetime) -> RunQuerySet:
        return self.leased().filter(due_at__lte=now)

    def held(self, turn: int) -> RunQuerySet:
        """The rows of which this turn still is the one: the fence of every write."""
        return self.filter(status=Run.Status.RUNNING, turn=turn)

    def claim(self, *, lease_until: datetime) -> int:
        return self.filter(status=Run.Status.PENDING).update(
            status=Run.Status.RUNNING, turn=F("turn") + 1, due_at=lease_until
        )

    def extend_lease(self, turn: int, *, lease_until: datetime) -> int:
        return self.held(turn).update(**leased(lease_until))

    def make_ready(self, now: datetime) -> int:
        return self.filter(status=Run.Status.SUSPENDED).update(status=Run.Status.PENDING, due_at=now)

    def recover(self, now: datetime) -> int:
        return self.lease_ended(now).update(
            status=Run.Status.PENDING, due_at=now, recoveries=F("recoveries") + 1
        )

    def fail(self, *, error: Any, now: datetime) -> int:
        return self.active().update(**failed(error, now))

    def cancel(self, *, now: datetime) -> int:
        return self.filter(status__in=(*Run.ACTIVE, Run.Status.FAILED)).update(
            status=Run.Status.CANCELLED, due_at=None, finished_at=now
        )

    def retry(self, *, now: datetime) -> int:
        return self.filter(status=Run.Status.FAILED).update(
            status=Run.Status.PENDING, due_at=now, finished_at=None, error=None, recoveries=0
        )


class Run(models.Model):
    """One execution of a workflow, or of a step started on its own.

    `due_at` says when somebody must act on the run next: while pending, since when it has been
    ready; while running, when the worker's lease ends; while suspended, when its timer is due
    (NULL if it waits for people only); NULL once it is over.
    """

    class Status(models.TextChoices):
        PENDING = "pending", _("pending")
        RUNNING = "running", _("running")
        SUSPENDED = "suspended", _("suspended")
        COMPLETED = "completed", _("completed")
        FAILED = "failed", _("failed")
        CANCELLED = "cancelled", _("cancelled")

    ACTIVE = (Status.PENDING, Status.RUNNING, Status.SUSPENDED)

    public_id = models.UUIDField(_("public id"), default=uuid.uuid4, unique=True, editable=False)
    workflow = models.CharField(_("workflow"), max_length=200)
    queue = models.CharField(_("queue"), max_length=100)
    key = models.CharField(_("idempotency key"), max_length=200, null=True, blank=True)
    status = models.CharField(_("status"), max_length=10, choices=Status, default=Status.PENDING)
    turn = models.PositiveIntegerField(_("turn"), default=0)
    recoveries = models.PositiveIntegerField(_("recoveries"), default=0)
    max_recoveries = models.PositiveIntegerField(_("recoveries allowed"), default=3)
    due_at = models.DateTimeField(_("due at"), null=True, blank=True)
    arguments = RecordField(_("arguments"))
    result = RecordField(_("result"), null=True)
    error = RecordField(_("error"), null=True)
    created_at = models.DateTimeField(_("created at"))
    finished_at = models.DateTimeField(_("finished at"), null=True, blank=True)
    started_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        verbose_name=_("started by"),
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        db_index=False,
    )
    subject_type = models.ForeignKey(
        ContentType,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        db_index=False,
    )
    subject_id = models.CharField(max_length=64, null=True, blank=True)
    subject = GenericForeignKey("subject_type", "subject_id")

    objects = RunQuerySet.as_manager()

    class Meta:
        verbose_name = _("run")
        verbose_name_plural = _("runs")
        default_permissions = ("view",)
        permissions = [
            ("start_run", "Can start runs"),
            ("cancel_run", "Can cancel runs"),
            ("retry_run", "Can retry failed runs"),
        ]
        # NULL keys differ from each other in every database, so this needs no condition.
        constraints = [
            models.UniqueConstraint(fields=["workflow", "key"], name="stephooks_run_key"),
            models.CheckConstraint(
                name="stephooks_run_due",
                condition=Q(status__in=("completed", "failed", "cancelled"), due_at=None)
                | Q(status__in=("pending", "running"), due_at__isnull=False)
                | Q(status="suspended"),
            ),
        ]
        indexes = [
            # For the claim: who is ready in a queue, oldest first, however many are in another one.
            # The status is no column: PostgreSQL does not look for what the condition says already.
            models.Index(
                fields=["queue", "due_at"],
                name="stephooks_run_ready",
                condition=Q(status="pending"),
            ),
            # For the sweep: leases and timers, and nothing that waits for people.
            models.Index(
                fields=["status", "due_at", "id"],
                name="stephooks_run_due_at",
                condition=Q(status="running") | Q(status="suspended", due_at__isnull=False),
            ),
            # For lists: what is rare among millions. A run that goes well never comes in here.
            models.Index(
                fields=["status", "id"],
                name="stephooks_run_ended",
                condition=Q(status__in=("failed", "cancelled")),
            ),
            models.Index(
                fields=["subject_type", "subject_id"],
                name="stephooks_run_subject",
                condition=Q(subject_id__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.label} #{self.pk}"

    @property
    def label(self) -> str:
        """The workflow's name as people read it: "publish story"."""
        return self.workflow.rpartition(".")[2].replace("_", " ")

    @property
    def is_finished(self) -> bool:
        return self.status not in self.ACTIVE
