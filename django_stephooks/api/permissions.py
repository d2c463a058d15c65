"""Who may see what. REST framework's own classes ask for no permission on GET; these do."""

from __future__ import annotations

from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet
from rest_framework.exceptions import NotFound
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from django_stephooks.exceptions import NotAllowedError
from django_stephooks.services.rules import VIEW_RUN as VIEW_RUN
from django_stephooks.services.rules import has_permission

VIEW_HOOK = "django_stephooks.view_hook"

M = TypeVar("M", bound=Model)


class IsKnown(BasePermission):
    """Somebody who logged in; what they may do is asked where the row is known."""

    def has_permission(self, request: Request, view: Any) -> bool:
        return request.user.is_authenticated


class MayList(IsKnown):
    """Somebody with the view's `list_permission`."""

    message = "Seeing these takes the permission to view them."

    def has_permission(self, request: Request, view: Any) -> bool:
        return super().has_permission(request, view) and request.user.has_perm(view.list_permission)


def find_visible(request: Request, rows: QuerySet[M], permission: str, public_id: UUID) -> M:
    """The row; NotFound too for one that the user may not see, so that nobody learns that it is there."""
    row = rows.filter(public_id=public_id).first()
    if row is None or not has_permission(request.user, permission, row):
        raise NotFound
    return row


def require(user: Any, permission: str, thing: Any, what: str) -> None:
    """NotAllowedError unless the user has it, in general or for this thing."""
    if not has_permission(user, permission, thing):
        raise NotAllowedError(f"{what} by {user.get_username()}: that takes the permission {permission}.")
