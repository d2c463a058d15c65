"""Pages without counts or offsets: the cursor is the public id of the last row that was shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from django.db.models import F, Model, QuerySet
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from .base import ApiView
from .permissions import MayList
from .throttles import ReadThrottle

M = TypeVar("M", bound=Model)

# So many of the newest keys are looked at before all others are.
NEAR = 50_000

PAGE_SIZE = 50
MAX_PAGE_SIZE = 100


class PageQuery(serializers.Serializer[Any]):
    cursor = serializers.UUIDField(required=False, help_text="From the `next` of the page before.")
    page_size = serializers.IntegerField(
        required=False, default=PAGE_SIZE, min_value=1, max_value=MAX_PAGE_SIZE
    )


class JournalQuery(PageQuery):
    cursor = serializers.IntegerField(  # type: ignore[assignment]
        required=False,
        default=0,
        min_value=0,
        max_value=2**31,
        help_text="From the `next` of the page before.",
    )


def newest_first(rows: QuerySet[M], query: dict[str, Any]) -> tuple[list[M], Any]:
    """A page of these rows, and the cursor of the next one, if there is one."""
    if "cursor" in query:
        # By the key, in whose order rows were made; the key itself is nobody's business.
        last = rows.model._default_manager.filter(public_id=query["cursor"]).values_list("pk", flat=True)
        if (pk := last.first()) is None:
            raise ValidationError({"cursor": ["This page is gone; begin with the first one."]})
        rows = rows.filter(pk__lt=pk)
    else:
        pk = rows.model._default_manager.order_by("-pk").values_list("pk", flat=True).first() or 0
    size = query["page_size"]
    found = list(rows.filter(pk__gt=pk - NEAR).order_by("-pk")[: size + 1])
    if len(found) <= size and pk > NEAR:
        # Rare ones. With a sum there is no index to walk along past all others, looking for them.
        others = rows.filter(pk__lte=pk - NEAR).order_by((F("pk") + 0).desc())
        found += others[: size + 1 - len(found)]
    page = found[:size]
    return page, page[-1].public_id if len(found) > size else None  # type: ignore[attr-defined]


def in_order(rows: QuerySet[M], query: dict[str, Any]) -> tuple[list[M], Any]:
    """A page of a journal, which only grows at its end; the cursor is how many come before."""
    begin, size = query["cursor"], query["page_size"]
    found = list(rows.order_by("pk")[begin : begin + size + 1])
    return found[:size], begin + size if len(found) > size else None


def as_page(request: Request, results: Sequence[Any], cursor: Any) -> dict[str, Any]:
    here = request.build_absolute_uri()
    return {
        "next": replace_query_param(here, "cursor", cursor) if cursor is not None else None,
        "results": results,
    }


class NewestFirst(ApiView):
    """A list, for those who have its `list_permission`."""

    problem_statuses = (400, 403, 429)
    permission_classes = (MayList,)
    throttle_classes = (ReadThrottle,)

    def rows(self, query: dict[str, Any]) -> QuerySet[Any]:
        raise NotImplementedError

    def get(self, request: Request) -> Response:
        query = self.query()
        rows, cursor = newest_first(self.rows(query), query)
        return self.respond(as_page(request, rows, cursor))
