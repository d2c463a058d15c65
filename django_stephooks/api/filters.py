"""What lists can be narrowed to, by query parameters."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from typing import Any

from django.utils import timezone
from rest_framework import serializers

from django_stephooks.models import Hook, Run
from django_stephooks.models.hook import HookQuerySet
from django_stephooks.models.run import RunQuerySet
from django_stephooks.services.awaiting import awaiting
from django_stephooks.services.streams import CURSOR

from .pagination import PageQuery

# Runs of the package's own, such as those that send its mail.
OWN_RUNS = "stephooks."


class HookQuery(PageQuery):
    status = serializers.ChoiceField(
        choices=Hook.Status.choices, required=False, help_text="`pending`: can be answered now."
    )
    workflow = serializers.CharField(required=False, max_length=200)
    name = serializers.CharField(required=False, max_length=100)
    run = serializers.UUIDField(required=False)
    due = serializers.ChoiceField(
        choices=["overdue", "hour", "today"],
        required=False,
        help_text="Of those that can be answered: past the deadline; it is within the hour; today.",
    )
    awaiting = serializers.ChoiceField(
        choices=["me"], required=False, help_text="`me`: those that you may answer now."
    )


class RunQuery(PageQuery):
    status = serializers.ChoiceField(choices=Run.Status.choices, required=False)
    workflow = serializers.CharField(
        required=False,
        max_length=200,
        help_text=f"Without it, the package's own (`{OWN_RUNS}…`) are left out.",
    )


class StreamQuery(serializers.Serializer[Any]):
    after = serializers.RegexField(
        CURSOR,
        required=False,
        max_length=50,
        help_text="The id of the last event; for what can not send the header Last-Event-ID.",
    )


def filter_hooks(hooks: HookQuerySet, query: dict[str, Any], user: Any) -> HookQuerySet:
    now = timezone.now()
    if status := query.get("status"):
        hooks = _of_status(hooks, status, now)
    if due := query.get("due"):
        hooks = _due(hooks.waiting(now), due, now)
    if "awaiting" in query:
        hooks = awaiting(user, hooks, now=now)
    fields = {"workflow": "run__workflow", "name": "name", "run": "run__public_id"}
    return hooks.filter(**{field: query[name] for name, field in fields.items() if name in query})


def _of_status(hooks: HookQuerySet, status: str, now: datetime) -> HookQuerySet:
    """By what counts: expired from the deadline on, whether or not a sweep has come by."""
    if status == Hook.Status.PENDING:
        return hooks.waiting(now)
    if status == Hook.Status.EXPIRED:
        return hooks.expired(now)
    return hooks.filter(status=status)


def _due(hooks: HookQuerySet, due: str, now: datetime) -> HookQuerySet:
    if due == "overdue":
        return hooks.filter(expires_at__lte=now)
    if due == "hour":
        return hooks.filter(expires_at__gt=now, expires_at__lte=now + timedelta(hours=1))
    tomorrow = timezone.localtime(now).date() + timedelta(days=1)
    midnight = timezone.make_aware(datetime.combine(tomorrow, time.min))
    return hooks.filter(expires_at__gt=now, expires_at__lt=midnight)


def filter_runs(runs: RunQuerySet, query: dict[str, Any]) -> RunQuerySet:
    if "status" in query:
        runs = runs.filter(status=query["status"])
    if "workflow" in query:
        return runs.filter(workflow=query["workflow"])
    return runs.exclude(workflow__startswith=OWN_RUNS)
