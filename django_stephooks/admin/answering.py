"""The address that takes an answer in the admin, and the way on to the next question."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path
from django.utils.translation import gettext as _

from django_stephooks.exceptions import HookChangedError, StepHooksError
from django_stephooks.models import Hook
from django_stephooks.review.answers import kindly
from django_stephooks.review.forms import answer_form
from django_stephooks.review.values import printable_text
from django_stephooks.services.awaiting import awaiting
from django_stephooks.services.hooks import resume_hook
from django_stephooks.services.rules import actions_for

from .readonly import ReadOnlyAdmin


class AnsweringAdmin(ReadOnlyAdmin):
    """What takes answers; the page itself is `HookAdmin.page`."""

    def get_urls(self) -> list[Any]:
        # Before Django's own, the last of which takes any path.
        answer = path(
            "<path:object_id>/answer/",
            self.admin_site.admin_view(self.answer_view),
            name=f"{self.opts.app_label}_{self.opts.model_name}_answer",
        )
        return [answer, *super().get_urls()]

    def answer_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Takes an answer; whatever is not a POST is only sent to the page."""
        hook = self.get_object(request, unquote(object_id))
        if not self.has_view_permission(request, hook):
            raise PermissionDenied
        if hook is None:
            raise Http404
        if request.method != "POST":
            return HttpResponseRedirect(self.url_back(request, hook))
        form = answer_form(hook, request.user, request.POST)
        decision = actions_for(request.user, hook)
        if not decision.may_answer:
            return self._refuse(request, object_id, form, decision.error, decision.reason)
        if not form.is_valid():
            return self.page(request, hook, form=form, status=400)
        try:
            resume_hook(
                hook.token,
                form.payload(),
                by=request.user,
                channel="admin",
                # An answer that does not say what it saw has not seen it.
                seen=request.POST.get("seen", ""),
            )
        except StepHooksError as error:
            if form.refuse(error):
                return self.page(request, hook, form=form, status=error.status_code)
            return self._refuse(request, object_id, form, type(error), str(error))
        self.log_change(request, hook, form.said())
        self.message_user(request, f"{form.said()} {printable_text(hook)}")
        return HttpResponseRedirect(self._way_on(request, hook))

    def _refuse(
        self, request: HttpRequest, object_id: str, form: Any, error: type[StepHooksError] | None, reason: str
    ) -> HttpResponse:
        """The page as it is by now, with why it was not taken, and what was typed."""
        hook = self.get_object(request, unquote(object_id))
        if hook is None:
            raise Http404
        if error is HookChangedError:
            refused = _("What is asked has changed since you opened this page. Look at it again, and choose.")
        else:
            refused = kindly(error, reason, hook)
        return self.page(
            request, hook, form=form, refused=refused, status=error.status_code if error else 409
        )

    def _way_on(self, request: HttpRequest, hook: Hook) -> str:
        """To the next question, if that was asked for."""
        if "next" not in request.GET:
            return self.url_back(request, hook)
        following = next_question(request.user, hook)
        if following is not None:
            return self.url_back(request, following)
        self.message_user(request, _("No other question awaits your review."), messages.INFO)
        return self.list_url(request)


def next_question(user: Any, hook: Hook) -> Hook | None:
    """The next that awaits this user's review: after the hook's deadline, else the most urgent."""
    queue = awaiting(user, Hook.objects.exclude(pk=hook.pk)).most_urgent().only("pk")
    # One part after the other: each is a range of the index, and together they are one walk along it.
    found = (queue.filter(part).first() for part in _from_here_on(hook))
    return next((hook for hook in found if hook is not None), None)


def _from_here_on(hook: Hook) -> tuple[Q, Q, Q]:
    """What comes behind the hook, to the end, and then from the beginning."""
    at, behind = hook.expires_at, Q(pk__gt=hook.pk)
    if at is None:
        return Q(expires_at=None) & behind, Q(expires_at__isnull=False), Q(expires_at=None)
    return Q(expires_at__gte=at) & (Q(expires_at__gt=at) | behind), Q(expires_at=None), Q(expires_at__lte=at)
