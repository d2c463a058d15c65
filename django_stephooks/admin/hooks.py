"""Hooks in the admin: the list of questions, and the page of one."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ORDER_VAR, ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_stephooks.models import Hook
from django_stephooks.review import marks, story
from django_stephooks.review.answers import kindly
from django_stephooks.review.context import read_context
from django_stephooks.review.forms import answer_form
from django_stephooks.review.mailed import mailed
from django_stephooks.review.people import reviewer_names
from django_stephooks.review.values import printable_text, read
from django_stephooks.services.awaiting import awaiting
from django_stephooks.services.digest import digest_of
from django_stephooks.services.rules import REVIEW, VIEW_RUN, actions_for, approval, has_permission, refusal

from .acting import ActingAdmin
from .answering import next_question
from .bulk import BulkAdmin
from .filters import AwaitingFilter, DueFilter, HookNameFilter, HookWorkflowFilter, StatusFilter, due
from .links import SendNewLinks
from .paging import LOOKED_AT, PagedList, count_up_to, first_of_waiting
from .runs import hooks_of

RUN_DEFERRED = ("run__arguments", "run__result", "run__error")


class HookList(PagedList):
    """The list is ordered by what is most urgent."""

    deferred = ("description", "context", "reviewers", "payload", *RUN_DEFERRED)

    def get_queryset(self, request: HttpRequest, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        hooks: Any = super().get_queryset(request, *args, **kwargs)
        if ORDER_VAR in self.params:
            return hooks  # type: ignore[no-any-return]
        # Of those that wait an index gives the order. Of all, any order but that of their keys would
        # sort a million.
        ordered: QuerySet[Any] = hooks.most_urgent() if lists_waiting(request) else hooks.order_by("-pk")
        return ordered


def lists_waiting(request: HttpRequest) -> bool:
    """Whether it is the list of those that wait, which are few among all."""
    return request.GET.get(str(StatusFilter.parameter_name)) is None


@admin.display(description=gettext_lazy("question"), ordering="title")
def question(hook: Hook) -> str:
    return printable_text(hook)


@admin.display(description=gettext_lazy("run"), ordering="run")
def run(hook: Hook) -> str:
    return printable_text(hook.run)


@admin.display(description=gettext_lazy("asked"), ordering="pk")
def asked(hook: Hook) -> str:
    return marks.moment(hook.created_at)


@admin.display(description=gettext_lazy("deadline"), ordering="expires_at")
def deadline(hook: Hook) -> str:
    if hook.status != Hook.Status.PENDING:
        return marks.moment(hook.expires_at)
    return marks.deadline(hook.expires_at, now=timezone.now())


@admin.display(description=gettext_lazy("status"))
def status(hook: Hook) -> SafeString:
    return marks.hook_status(hook, now=timezone.now())


class HookAdmin(ActingAdmin, BulkAdmin):
    list_display = (question, status, deadline, run, asked)
    list_filter = (StatusFilter, AwaitingFilter, DueFilter, HookWorkflowFilter, HookNameFilter)
    list_select_related = ("run",)
    search_fields = ("title", "name")
    search_help = gettext_lazy("Words of the question, the number of its run, or what it is about")
    run_field = "run_id"
    page_template = "django_stephooks/admin/hook.html"
    row_actions = (SendNewLinks(),)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return HookList

    def is_searched_whole(self, request: HttpRequest) -> bool:
        return lists_waiting(request)

    def get_sortable_by(self, request: HttpRequest) -> Any:
        return (question, deadline, run, asked) if lists_waiting(request) else (run, asked)

    def list_context(self, request: HttpRequest) -> dict[str, Any]:
        now = timezone.now()
        url = self.url_named("changelist")
        # What one user may answer is in no index.
        urgent, at_least = first_of_waiting(Hook.objects.all(), LOOKED_AT)
        mine = awaiting(request.user, urgent, now=now)
        counts = []
        count, text = count_up_to(mine, at_least=at_least)
        if count or at_least:
            counts.append((f"{url}?awaiting=me", text, _("awaiting your review")))
        for rows, words, query in (
            (Hook.objects.waiting(now), _("waiting"), ""),
            (due(Hook.objects.all(), "hour", now), _("due within the hour"), "?due=hour"),
            (due(Hook.objects.all(), "overdue", now), _("overdue"), "?due=overdue"),
        ):
            count, text = count_up_to(rows)
            if count or not query:
                counts.append((f"{url}{query}", text, words))
        return {"counts": counts}

    def page(
        self,
        request: HttpRequest,
        row: Any,
        *,
        form: Any = None,
        refused: str = "",
        status: int = 200,
        **context: Any,
    ) -> HttpResponse:
        hook: Hook = row
        now = timezone.now()
        settled = refusal(hook, hook.run, now)
        decision = actions_for(request.user, hook, now=now)
        if form is not None and form.errors:
            focus_first_error(form)
        following = next_question(request.user, hook)
        answer_url = self.url_back(request, hook, "answer")
        lines, is_cut = story.tell(
            hook.run,
            hooks_of(hook.run),
            with_tracebacks=has_permission(request.user, VIEW_RUN, hook.run),
        )
        return self.render(
            request,
            self.page_template,
            hook,
            status=status,
            **{
                "title": printable_text(hook),
                "hook": hook,
                "status_mark": marks.hook_status(hook, now=now, approved=approval(hook)),
                "description": printable_text(hook.description),
                "run_url": self.link_to(request, hook.run),
                "subject": self.subject_of(request, hook.run),
                "reviewers": reviewer_names(hook),
                "mailed": mailed(hook) if has_permission(request.user, REVIEW, hook) else [],
                "context": read_context(hook),
                "payload": read(hook, "payload") if hook.status == Hook.Status.RECEIVED else None,
                "story": lines,
                "story_is_cut": is_cut,
                "refused": refused,
                "settled": kindly(type(settled), str(settled), hook) if settled else "",
                "reason": "" if settled else decision.reason,
                "form": (form or answer_form(hook, request.user)) if decision.may_answer else None,
                "seen": digest_of(hook),
                "typed": "" if decision.may_answer or form is None else printable_text(form.typed()),
                "actions": self.action_urls(request, hook),
                "answer_url": answer_url,
                "next_url": f"{answer_url}{'&' if '?' in answer_url else '?'}next=1" if following else "",
                "following_url": self.url_back(request, following) if following else "",
                **context,
            },
        )


def focus_first_error(form: Any) -> None:
    for bound in form:
        if bound.errors:
            bound.field.widget.attrs["autofocus"] = True
            return
