"""Answering many hooks at once: a page says what will become of each; then each has its own transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core import signing
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_stephooks.conf import app_settings
from django_stephooks.exceptions import (
    HookAlreadyReceivedError,
    HookCancelledError,
    HookChangedError,
    HookExpiredError,
    HookNotFoundError,
    NotAllowedError,
    StepHooksError,
)
from django_stephooks.models import Hook
from django_stephooks.review.answers import kindly
from django_stephooks.review.forms import answer_form
from django_stephooks.review.values import printable_text
from django_stephooks.services.digest import digest_of
from django_stephooks.services.hooks import resume_hook
from django_stephooks.services.rules import REVIEW, actions_for

from .answering import AnsweringAdmin

SALT = "django_stephooks.admin.bulk"
DECISIONS = ("approve", "reject")


class CommentForm(forms.Form):
    comment = forms.CharField(
        label=gettext_lazy("Comment"),
        help_text=gettext_lazy("The same for each of them."),
        required=False,
        widget=forms.Textarea(attrs={"rows": 4}),
    )


@dataclass(kw_only=True)
class Groups:
    """What will become of the selected: `ready` will be answered; the others are left alone, and why."""

    ready: list[Hook] = field(default_factory=list)
    settled: list[tuple[Hook, str]] = field(default_factory=list)
    others: list[tuple[Hook, str]] = field(default_factory=list)


class BulkAdmin(AnsweringAdmin):
    actions = ("approve_selected", "reject_selected")
    bulk_template = "django_stephooks/admin/bulk.html"

    def has_review_permission(self, request: HttpRequest) -> bool:
        """Asked by Django before it offers or runs the actions."""
        return request.user.has_perm(REVIEW)

    def get_urls(self) -> list[Any]:
        name = f"{self.opts.app_label}_{self.opts.model_name}_bulk"
        return [path("bulk/", self.admin_site.admin_view(self.bulk_view), name=name), *super().get_urls()]

    @admin.action(permissions=["review"], description=gettext_lazy("Approve selected…"))
    def approve_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._begin(request, queryset, "approve")

    @admin.action(permissions=["review"], description=gettext_lazy("Reject selected…"))
    def reject_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._begin(request, queryset, "reject")

    def _begin(self, request: HttpRequest, queryset: QuerySet[Any], decision: str) -> HttpResponse | None:
        limit = app_settings.BULK_LIMIT
        pks = list(self._selected(request, queryset).values_list("pk", flat=True)[: limit + 1])
        if len(pks) > limit:
            count = number_format(limit, force_grouping=True)
            refused = _("More than %(count)s questions are selected, and no more can be answered at once.")
            advice = _("Nothing was done: narrow the list by its filters, or select fewer.")
            self.message_user(request, f"{refused % {'count': count}} {advice}", messages.ERROR)
            return None
        return self._confirm(request, pks, decision, CommentForm())

    def _selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """What was ticked, if it was not "all": also what has left the list's filters since it was shown."""
        if forms.BooleanField().to_python(request.POST.get("select_across")):
            return queryset
        return self.get_queryset(request).filter(pk__in=request.POST.getlist(ACTION_CHECKBOX_NAME))

    def _confirm(
        self, request: HttpRequest, pks: Iterable[int], decision: str, form: CommentForm, *, status: int = 200
    ) -> HttpResponse:
        groups = self._sorted(request.user, pks, decision)
        frozen = {
            "user": str(request.user.pk),
            "decision": decision,
            "ready": [[hook.pk, digest_of(hook)] for hook in groups.ready],
            "others": [hook.pk for hook, _why in (*groups.settled, *groups.others)],
        }
        count = len(groups.ready)
        title = {
            "approve": ngettext("Approve %(count)d question?", "Approve %(count)d questions?", count),
            "reject": ngettext("Reject %(count)d question?", "Reject %(count)d questions?", count),
        }[decision]
        return self.render(
            request,
            self.bulk_template,
            None,
            status=status,
            title=title % {"count": count},
            decision=decision,
            groups=groups,
            ready=[(hook, self.url_back(request, hook)) for hook in groups.ready],
            settled=[(hook, self.url_back(request, hook), why) for hook, why in groups.settled],
            others=[(hook, self.url_back(request, hook), why) for hook, why in groups.others],
            form=form,
            selection=signing.dumps(frozen, salt=SALT, compress=True),
            bulk_url=self.keeping_filters(request, self.url_named("bulk")),
            list_url=self.list_url(request),
        )

    def _sorted(self, user: Any, pks: Iterable[int], decision: str) -> Groups:
        groups = Groups()
        for hook in Hook.objects.filter(pk__in=list(pks)).select_related("run").waiting_first():
            found = actions_for(user, hook)
            if found.may_answer:
                if _fits(hook, user, decision):
                    groups.ready.append(hook)
                else:
                    why = _("It asks for more than yes or no: answer it on its own page.")
                    groups.others.append((hook, why))
            elif found.error is not None and issubclass(found.error, NotAllowedError):
                groups.others.append((hook, printable_text(found.reason)))
            else:
                groups.settled.append((hook, kindly(found.error, found.reason, hook)))
        return groups

    @transaction.non_atomic_requests
    def bulk_view(self, request: HttpRequest) -> HttpResponse:
        """Takes what the page asked about, and no other hook."""
        if not (self.has_view_permission(request) and self.has_review_permission(request)):
            raise PermissionDenied
        frozen = self._frozen(request)
        if frozen is None:
            if request.method == "POST":
                self.message_user(request, _("Nothing was done: select the questions again."), messages.ERROR)
            return HttpResponseRedirect(self.list_url(request))
        form = CommentForm(request.POST)
        decision = frozen["decision"]
        form.fields["comment"].required = decision == "reject"
        if not form.is_valid():
            pks = [*(pk for pk, _digest in frozen["ready"]), *frozen["others"]]
            return self._confirm(request, pks, decision, form, status=400)
        data = {"decision": decision, "comment": form.cleaned_data["comment"]}
        counted = Counter(self._answer(request, pk, seen, data) for pk, seen in frozen["ready"])
        for hook in Hook.objects.filter(pk__in=frozen["others"]).select_related("run"):
            counted[actions_for(request.user, hook).error or StepHooksError] += 1
        said = ", ".join(_outcome(error, count, decision) for error, count in counted.items())
        level = messages.SUCCESS if set(counted) == {None} else messages.WARNING
        self.message_user(request, f"{said}.", level)
        return HttpResponseRedirect(self.list_url(request))

    def _frozen(self, request: HttpRequest) -> Any:
        try:
            frozen = signing.loads(request.POST.get("selection", ""), salt=SALT)
        except signing.BadSignature:
            return None
        return frozen if frozen["user"] == str(request.user.pk) else None

    def _answer(
        self, request: HttpRequest, pk: int, seen: str, data: dict[str, str]
    ) -> type[StepHooksError] | None:
        """None if it was answered, else why not."""
        hook = Hook.objects.filter(pk=pk).first()
        if hook is None:
            return HookNotFoundError
        form = answer_form(hook, request.user, data)
        if not form.is_valid():
            return actions_for(request.user, hook).error or StepHooksError
        try:
            resume_hook(hook.token, form.payload(), by=request.user, channel="bulk", seen=seen)
        except StepHooksError as error:
            return type(error)
        self.log_change(request, hook, form.said())
        return None


def _fits(hook: Hook, user: Any, decision: str) -> bool:
    form = answer_form(hook, user, {"decision": decision, "comment": "…"})
    return bool(form.has_verdict and form.is_valid())


def _outcome(error: type[StepHooksError] | None, count: int, decision: str) -> str:
    """As in "9 approved"."""
    words: dict[type[StepHooksError] | None, str] = {
        None: _("approved") if decision == "approve" else _("rejected"),
        HookAlreadyReceivedError: _("already answered"),
        HookExpiredError: _("expired"),
        HookCancelledError: _("no longer asked"),
        HookChangedError: _("changed meanwhile and left alone"),
        HookNotFoundError: _("gone"),
        NotAllowedError: _("not yours to review"),
    }
    return f"{count} {words.get(error, _('to be answered on their own page'))}"
