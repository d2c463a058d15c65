"""Runs in the admin: the list, the page of one with its story, and the pages that cancel and retry."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_stephooks.exceptions import SerializationError
from django_stephooks.models import Hook, Run
from django_stephooks.review import marks, story
from django_stephooks.review.values import printable_text, read
from django_stephooks.services.rules import CANCEL, RETRY, approval, run_actions_for
from django_stephooks.services.runs import cancel_run, retry_run

from .acting import ActingAdmin, RowAction
from .filters import OwnRunsFilter, RunWorkflowFilter
from .paging import PagedList
from .readonly import subject_label

MAX_HOOKS = 200


class ReasonForm(forms.Form):
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 4}),
    )


class _RunAction(RowAction):
    template = "django_stephooks/admin/run_action.html"
    form_class = ReasonForm

    def refusal(self, user: Any, row: Run) -> str:
        if self.name in run_actions_for(user, row):
            return ""
        said = _("%(run)s is %(status)s.") % {"run": row, "status": row.get_status_display()}
        return printable_text(said)


class Cancel(_RunAction):
    name = "cancel"
    permission = CANCEL

    def title(self, row: Run) -> str:
        return _("Cancel %(run)s?") % {"run": printable_text(row)}

    def act(self, user: Any, row: Run, data: dict[str, Any]) -> str:
        cancel_run(row, by=user, reason=data["reason"])
        return _("Cancelled: %(reason)s") % data


class Retry(_RunAction):
    name = "retry"
    permission = RETRY

    def title(self, row: Run) -> str:
        return _("Retry %(run)s?") % {"run": printable_text(row)}

    def act(self, user: Any, row: Run, data: dict[str, Any]) -> str:
        retry_run(row, by=user, reason=data["reason"])
        return _("Retried: %(reason)s") % data


class RunList(PagedList):
    deferred = ("arguments", "result", "error")


@admin.display(description=gettext_lazy("run"), ordering="pk")
def name(run: Run) -> str:
    return printable_text(run)


@admin.display(description=gettext_lazy("status"))
def status(run: Run) -> SafeString:
    return marks.run_status(run)


@admin.display(description=gettext_lazy("subject"))
def subject(run: Run) -> str:
    return subject_label(run) or "-"


@admin.display(description=gettext_lazy("created"), ordering="pk")
def created(run: Run) -> str:
    return marks.moment(run.created_at)


@admin.display(description=gettext_lazy("finished"))
def finished(run: Run) -> str:
    return marks.moment(run.finished_at)


def hooks_of(run: Run) -> dict[str, Hook]:
    """A run's questions by call, without what was given to decide them."""
    found = run.hooks.order_by("pk").defer("description", "context", "reviewers")
    return {hook.call: hook for hook in found[:MAX_HOOKS]}


class RunAdmin(ActingAdmin):
    list_display = (name, status, subject, "started_by", created, finished)
    list_filter = ("status", RunWorkflowFilter, OwnRunsFilter)
    list_select_related = ("started_by", "subject_type")
    search_fields = ("workflow", "key")
    search_help = gettext_lazy("The number of a run, its workflow, its key, or what it is about")
    ordering = ("-pk",)
    run_field = "pk"
    page_template = "django_stephooks/admin/run.html"
    row_actions = (Cancel(), Retry())

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return RunList

    def get_sortable_by(self, request: HttpRequest) -> Any:
        # Any other column would sort a million.
        return (name, created)

    def page(self, request: HttpRequest, row: Any, **context: Any) -> HttpResponse:
        run: Run = row
        hooks = hooks_of(run)
        lines, is_cut = story.tell(run, hooks, with_tracebacks=True)
        return self.render(
            request,
            self.page_template,
            run,
            **{
                "title": printable_text(run),
                "run": run,
                "subject": self.subject_of(request, run),
                "arguments": read(run, "arguments"),
                "result": read(run, "result") if run.status == Run.Status.COMPLETED else None,
                "error": self._error(run),
                "hooks": [self._hook(request, hook) for hook in hooks.values()],
                "story": lines,
                "story_is_cut": is_cut,
                "actions": self.action_urls(request, run),
                **context,
            },
        )

    def _hook(self, request: HttpRequest, hook: Hook) -> dict[str, Any]:
        return {
            "title": printable_text(hook),
            "url": self.link_to(request, hook),
            "status": marks.hook_status(hook, now=timezone.now(), approved=approval(hook)),
            "hook": hook,
        }

    def _error(self, run: Run) -> dict[str, str] | None:
        """Why it failed, in a line, and the traceback."""
        try:
            error = run.error
        except SerializationError as unreadable:
            return {"line": printable_text(unreadable), "traceback": ""}
        if error is None:
            return None
        if not isinstance(error, dict):
            return {"line": printable_text(error), "traceback": ""}
        return {
            "line": printable_text(story.describe(error)),
            "traceback": printable_text(error.get("traceback") or ""),
        }
