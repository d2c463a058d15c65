"""`GET /hooks/` and `GET /hooks/{id}/`."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from django_stephooks.models import Hook
from django_stephooks.models.hook import HookQuerySet
from django_stephooks.services.rules import actions_for

from .base import ApiView
from .filters import HookQuery, filter_hooks
from .pagination import NewestFirst
from .permissions import VIEW_HOOK, find_visible
from .serializers import HookPageSerializer, HookSerializer
from .throttles import ReadThrottle

# No column of unknown size.
SUMMARY = (
    "public_id",
    "name",
    "title",
    "status",
    "on_timeout",
    "created_at",
    "expires_at",
    "settled_at",
    "answered_by_label",
    "channel",
    "run__public_id",
    "run__workflow",
    "run__subject_id",
    "run__subject_type__app_label",
    "run__subject_type__model",
)


class HookList(NewestFirst):
    """Hooks, the newest first."""

    operation = "hooks_list"
    query_serializer = HookQuery
    response_serializer = HookPageSerializer
    list_permission = VIEW_HOOK

    def rows(self, query: dict[str, Any]) -> HookQuerySet:
        hooks = filter_hooks(Hook.objects.all(), query, self.request.user)
        return hooks.select_related("run__subject_type").only(*SUMMARY)


class HookDetail(ApiView):
    """One hook: what is asked, and the answer once there is one. Its token is never shown."""

    operation = "hooks_show"
    response_serializer = HookSerializer
    problem_statuses = (403, 404, 429)
    throttle_classes = (ReadThrottle,)

    def get(self, request: Request, public_id: UUID) -> Response:
        hooks = Hook.objects.select_related("run__subject_type").defer(
            "run__arguments", "run__result", "run__error"
        )
        hook = find_visible(request, hooks, VIEW_HOOK, public_id)
        return self.respond(hook, decision=actions_for(request.user, hook))
