"""What the lists of hooks and runs can be narrowed to."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_stephooks.models import Hook, Run
from django_stephooks.services.awaiting import awaiting

from .paging import newest_values

# The package's own workflows, such as the one that sends mail, are called so.
OWN = "stephooks."


class StatusFilter(admin.SimpleListFilter):
    """Opens on what waits; a question past its deadline is expired, whether or not a sweep has come by."""

    title = gettext_lazy("status")
    parameter_name = "status"
    ALL = "all"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [
            (Hook.Status.RECEIVED, gettext_lazy("Answered")),
            (Hook.Status.EXPIRED, gettext_lazy("Expired")),
            (Hook.Status.CANCELLED, gettext_lazy("Cancelled")),
            (self.ALL, gettext_lazy("All")),
        ]

    def choices(self, changelist: Any) -> Any:
        first, *others = super().choices(changelist)
        yield {**first, "display": _("Waiting")}
        yield from others

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        now = timezone.now()
        if self.value() is None:
            return queryset.waiting(now)
        if self.value() == Hook.Status.EXPIRED:
            return queryset.expired(now)
        if self.value() == self.ALL:
            return queryset
        return queryset.filter(status=self.value())


class AwaitingFilter(admin.SimpleListFilter):
    """Those that the user may answer, by the rule book."""

    title = gettext_lazy("reviewer")
    parameter_name = "awaiting"
    ME = "me"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(self.ME, gettext_lazy("Awaiting my review"))]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return awaiting(request.user, queryset) if self.value() == self.ME else queryset


class DueFilter(admin.SimpleListFilter):
    """By the deadline, of those that wait."""

    title = gettext_lazy("due")
    parameter_name = "due"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [
            ("overdue", gettext_lazy("Overdue")),
            ("hour", gettext_lazy("Within the hour")),
            ("today", gettext_lazy("Today")),
        ]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        value = self.value()
        return due(queryset, value, timezone.now()) if value else queryset


def due(hooks: Any, when: str, now: datetime) -> Any:
    """Those of the hooks that are "overdue", or due within the "hour", or "today"."""
    if when == "overdue":
        return hooks.pending().filter(on_timeout=Hook.OnTimeout.SUSPEND, expires_at__lte=now)
    today = timezone.localdate(now) + timedelta(days=1)
    midnight = timezone.make_aware(datetime.combine(today, time.min))
    until = {"hour": now + timedelta(hours=1), "today": midnight}.get(when)
    return hooks.pending().filter(expires_at__gt=now, expires_at__lte=until) if until else hooks


class _NewestFilter(admin.SimpleListFilter):
    """Values to choose from without a look at every row."""

    position = 0

    def newest(self, request: HttpRequest) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        values = {row[self.position] for row in self.newest(request)}
        if chosen := self.value():
            values.add(chosen)
        return [(value, self.words(value)) for value in sorted(values)]

    def words(self, value: str) -> str:
        return value

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(**{str(self.parameter_name): self.value()}) if self.value() else queryset


class _NewestHooks(_NewestFilter):
    def newest(self, request: HttpRequest) -> list[tuple[Any, ...]]:
        return newest_values(request, Hook, "run__workflow", "name")


class HookWorkflowFilter(_NewestHooks):
    title = gettext_lazy("workflow")
    parameter_name = "run__workflow"

    def words(self, value: str) -> str:
        return Run(workflow=value).label


class HookNameFilter(_NewestHooks):
    title = gettext_lazy("question")
    parameter_name = "name"
    position = 1

    def words(self, value: str) -> str:
        return value.replace("_", " ")


class RunWorkflowFilter(_NewestFilter):
    title = gettext_lazy("workflow")
    parameter_name = "workflow"

    def newest(self, request: HttpRequest) -> list[tuple[Any, ...]]:
        return newest_values(request, Run, "workflow")

    def words(self, value: str) -> str:
        return Run(workflow=value).label


class OwnRunsFilter(admin.SimpleListFilter):
    """The package's own runs, such as those that send mail, are in nobody's way."""

    title = gettext_lazy("kind")
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("own", gettext_lazy("Of django-stephooks itself")), ("all", gettext_lazy("All"))]

    def choices(self, changelist: Any) -> Any:
        first, *others = super().choices(changelist)
        yield {**first, "display": _("The site's")}
        yield from others

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        # Whoever chose one of its workflows wants to see it.
        if self.value() == "all" or request.GET.get(str(RunWorkflowFilter.parameter_name)):
            return queryset
        own = {"workflow__startswith": OWN}
        return queryset.filter(**own) if self.value() == "own" else queryset.exclude(**own)
