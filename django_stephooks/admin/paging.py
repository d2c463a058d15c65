"""Lists of any length: nothing is counted, or offered to choose from, that takes a walk over all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.formats import number_format
from django.utils.functional import cached_property

# What filters offer is what the newest rows have.
NEWEST = 1_000


if TYPE_CHECKING:
    _Paginator = Paginator[Any]
else:
    _Paginator = Paginator


class BoundedPaginator(_Paginator):
    """Stops counting at LIMIT rows; nobody turns the page 200 times. Filters and the search lead further."""

    LIMIT = 10_000

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by()[: self.LIMIT].count())


def count_up_to(rows: QuerySet[Any], limit: int = 1_000) -> tuple[int, str]:
    """How many there are, and as people read it: "12", or "1,000+"."""
    count = rows.order_by()[: limit + 1].count()
    text = number_format(min(count, limit), use_l10n=True, force_grouping=True)
    return count, f"{text}+" if count > limit else text


def newest_values(request: HttpRequest, model: type[Model], *fields: str) -> list[tuple[Any, ...]]:
    """What the newest rows have in these columns; asked once for a request."""
    name = f"_stephooks_newest_{model._meta.model_name}"
    if not hasattr(request, name):
        rows = model._default_manager.order_by("-pk").values_list(*fields)[:NEWEST]
        setattr(request, name, list(rows))
    found: list[tuple[Any, ...]] = getattr(request, name)
    return found
