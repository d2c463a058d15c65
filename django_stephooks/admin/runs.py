"""Runs in the admin: the list, the page of one with its story, and the pages that cancel and retry."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_stephooks.exceptions import RunStateError, SerializationError
from django_stephooks.models import Hook, Run
from django_stephooks.review import marks, story
from django_stephooks.review.values import printable_text, read
from django_stephooks.services.rules import approval, has_permission, run_actions_for
from django_stephooks.services.runs import cancel_run, retry_run

from .filters import OwnRunsFilter, RunWorkflowFilter
from .readonly import ReadOnlyAdmin, subject_label

MAX_HOOKS = 200


class ReasonForm(forms.Form):
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 4}),
    )


class RunList(ChangeList):
    """The list loads nothing of unknown size."""

    def get_queryset(self, request: HttpRequest, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        return super().get_queryset(request, *args, **kwargs).defer("arguments", "result", "error")


@admin.display(description=gettext_lazy("run"), ordering="pk")
def name(run: Run) -> str:
    return printable_text(run)


@admin.display(description=gettext_lazy("status"), ordering="status")
def status(run: Run) -> SafeString:
    return marks.run_status(run)


@admin.display(description=gettext_lazy("subject"))
def subject(run: Run) -> str:
    return subject_label(run) or "-"


@admin.display(description=gettext_lazy("created"), ordering="pk")
def created(run: Run) -> str:
    return marks.moment(run.created_at)


@admin.display(description=gettext_lazy("finished"), ordering="finished_at")
def finished(run: Run) -> str:
    return marks.moment(run.finished_at)


def hooks_of(run: Run) -> dict[str, Hook]:
    """A run's questions by call, without what was given to decide them."""
    found = run.hooks.order_by("pk").defer("description", "context", "reviewers")
    return {hook.call: hook for hook in found[:MAX_HOOKS]}


class RunAdmin(ReadOnlyAdmin):
    list_display = (name, status, subject, "started_by", created, finished)
    list_filter = ("status", RunWorkflowFilter, OwnRunsFilter)
    list_select_related = ("started_by", "subject_type")
    search_fields = ("workflow", "key")
    search_help = gettext_lazy("The number of a run, its workflow, its key, or what it is about")
    ordering = ("-pk",)
    run_field = "pk"
    page_template = "django_stephooks/admin/run.html"
    action_template = "django_stephooks/admin/run_action.html"

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return RunList

    def get_urls(self) -> list[Any]:
        # Before Django's own, the last of which takes any path.
        ours = [
            path(
                f"<path:object_id>/{action}/",
                self.admin_site.admin_view(self.action_view),
                {"action": action},
                name=f"{self.opts.app_label}_{self.opts.model_name}_{action}",
            )
            for action in ("cancel", "retry")
        ]
        return [*ours, *super().get_urls()]

    def action_view(self, request: HttpRequest, object_id: str, action: str) -> HttpResponse:
        """GET asks for the reason, POST does it."""
        run = self.get_object(request, unquote(object_id))
        if not self.has_view_permission(request, run):
            raise PermissionDenied
        if run is None:
            raise Http404
        if not has_permission(request.user, f"{self.opts.app_label}.{action}_run", run):
            raise PermissionDenied
        if request.method == "POST":
            return self._act(request, run, action)
        if action not in run_actions_for(request.user, run):
            said = _("%(run)s is %(status)s.") % {"run": run, "status": run.get_status_display()}
            self.message_user(request, said, messages.WARNING)
            return HttpResponseRedirect(self.url_back(request, run))
        return self._ask(request, run, action, ReasonForm())

    def _act(self, request: HttpRequest, run: Run, action: str) -> HttpResponse:
        form = ReasonForm(request.POST)
        if not form.is_valid():
            return self._ask(request, run, action, form, status=400)
        reason = form.cleaned_data["reason"]
        act, said = {
            "cancel": (cancel_run, _("Cancelled: %(reason)s")),
            "retry": (retry_run, _("Retried: %(reason)s")),
        }[action]
        try:
            act(run, by=request.user, reason=reason)
        except RunStateError as error:
            return self._ask(request, run, action, form, refused=str(error), status=error.status_code)
        self.log_change(request, run, said % {"reason": reason})
        self.message_user(request, f"{said % {'reason': reason}} ({printable_text(run)})")
        return HttpResponseRedirect(self.url_back(request, run))

    def _ask(
        self,
        request: HttpRequest,
        run: Run,
        action: str,
        form: ReasonForm,
        *,
        refused: str = "",
        status: int = 200,
    ) -> HttpResponse:
        title = {"cancel": _("Cancel %(run)s?"), "retry": _("Retry %(run)s?")}[action]
        return self.render(
            request,
            self.action_template,
            run,
            status=status,
            title=title % {"run": printable_text(run)},
            run=run,
            action=action,
            form=form,
            refused=refused,
            run_url=self.url_back(request, run),
            action_url=self.url_back(request, run, action),
        )

    def page(self, request: HttpRequest, row: Any, **context: Any) -> HttpResponse:
        run: Run = row
        hooks = hooks_of(run)
        lines, is_cut = story.tell(run, hooks)
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
                "actions": {
                    action: self.url_back(request, run, action)
                    for action in sorted(run_actions_for(request.user, run))
                },
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
