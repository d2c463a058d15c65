"""Pages that act on one row: GET says what will happen and changes nothing, POST does it."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path

from django_stephooks.exceptions import NotAllowedError, StepHooksError
from django_stephooks.review.values import printable_text
from django_stephooks.services.rules import has_permission

from .readonly import ReadOnlyAdmin


class RowAction:
    """One thing that can be done to a row. `name` is the last part of its page's address."""

    name = ""
    permission = ""
    template = ""
    form_class: type[forms.Form] = forms.Form

    def title(self, row: Any) -> str:
        raise NotImplementedError

    def refusal(self, user: Any, row: Any) -> str:
        """Why the row, as it is now, can not have this done; "" if it can."""
        raise NotImplementedError

    def act(self, user: Any, row: Any, data: dict[str, Any]) -> str:
        """Does it, and says what was done. A StepHooksError is a refusal."""
        raise NotImplementedError

    def why(self, error: StepHooksError, row: Any) -> str:
        """An error of `act` in words; `row` is as it is by now."""
        return printable_text(error)

    def context(self, row: Any) -> dict[str, Any]:
        """What its template is given besides the row, the form and the addresses."""
        return {}


class ActingAdmin(ReadOnlyAdmin):
    row_actions: ClassVar[tuple[RowAction, ...]] = ()

    def get_urls(self) -> list[Any]:
        # Before Django's own, the last of which takes any path.
        ours = [
            path(
                f"<path:object_id>/{action.name}/",
                self.admin_site.admin_view(partial(self.action_view, action=action)),
                name=f"{self.opts.app_label}_{self.opts.model_name}_{action.name}",
            )
            for action in self.row_actions
        ]
        return [*ours, *super().get_urls()]

    def may(self, request: HttpRequest, row: Any, action: RowAction) -> bool:
        """Whether the user has the permission, whatever became of the row."""
        return has_permission(request.user, action.permission, row)

    def action_urls(self, request: HttpRequest, row: Any) -> dict[str, str]:
        """The pages of all that the user may do to the row now, by name."""
        return {
            action.name: self.url_back(request, row, action.name)
            for action in self.row_actions
            if self.may(request, row, action) and not action.refusal(request.user, row)
        }

    def action_view(self, request: HttpRequest, object_id: str, *, action: RowAction) -> HttpResponse:
        row = self.get_object(request, unquote(object_id))
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        if row is None:
            raise Http404
        if not self.may(request, row, action):
            raise PermissionDenied
        if request.method == "POST":
            return self._act(request, row, action)
        if refused := action.refusal(request.user, row):
            self.message_user(request, refused, messages.WARNING)
            return HttpResponseRedirect(self.url_back(request, row))
        return self._ask(request, row, action, action.form_class())

    def _act(self, request: HttpRequest, row: Any, action: RowAction) -> HttpResponse:
        form = action.form_class(request.POST)
        if not form.is_valid():
            return self._ask(request, row, action, form, status=400)
        try:
            said = action.act(request.user, row, form.cleaned_data)
        except NotAllowedError as error:
            # Lost since the page was asked for.
            raise PermissionDenied from error
        except StepHooksError as error:
            row = self.get_object(request, str(row.pk))
            if row is None:
                raise Http404 from None
            refused = action.why(error, row)
            return self._ask(request, row, action, form, refused=refused, status=error.status_code)
        self.log_change(request, row, said)
        self.message_user(request, f"{said} ({printable_text(row)})")
        return HttpResponseRedirect(self.url_back(request, row))

    def _ask(
        self,
        request: HttpRequest,
        row: Any,
        action: RowAction,
        form: forms.Form,
        *,
        refused: str = "",
        status: int = 200,
    ) -> HttpResponse:
        return self.render(
            request,
            action.template,
            row,
            status=status,
            **{
                "title": action.title(row),
                str(self.opts.model_name): row,
                "action": action.name,
                "form": form,
                "refused": refused,
                "row_url": self.url_back(request, row),
                "action_url": self.url_back(request, row, action.name),
                **action.context(row),
            },
        )
