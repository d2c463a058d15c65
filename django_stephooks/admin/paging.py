"""Lists of any length: nothing is counted, or offered to choose from, that takes a walk over all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.admin.views.main import ORDER_VAR, ChangeList
from django.core.paginator import Paginator
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils.formats import number_format
from django.utils.functional import cached_property

from django_stephooks.models.hook import HookQuerySet

# What filters offer is what the newest rows have.
NEWEST = 1_000
# Among so many of the newest rows words are searched for.
SEARCHED = 200_000
# So many waiting ones are looked at to count those that one user may answer.
LOOKED_AT = 5_000


if TYPE_CHECKING:
    _Paginator = Paginator[Any]
else:
    _Paginator = Paginator


class BoundedPaginator(_Paginator):
    """Looks at LIMIT rows at most; nobody turns the page 40 times. Filters and the search lead further."""

    LIMIT = 2_000

    @cached_property
    def keys(self) -> list[int]:
        """In the list's order. One walk tells how many there are and which are on each page."""
        rows: Any = self.object_list
        return list(rows.values_list("pk", flat=True)[: self.LIMIT])

    @cached_property
    def count(self) -> int:
        return len(self.keys)


class PagedList(ChangeList):
    """A list that only loads the rows of the page, without the columns in `deferred`.

    It is sorted by the columns that its admin calls sortable, also if the address says otherwise.
    """

    deferred: tuple[str, ...] = ()

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        if ORDER_VAR in self.params:
            chosen = [part for part in str(self.params[ORDER_VAR]).split(".") if self._is_sortable(part)]
            self.params[ORDER_VAR] = ".".join(chosen)
            if not chosen:
                del self.params[ORDER_VAR]
        return super().get_ordering(request, queryset)

    def _is_sortable(self, part: str) -> bool:
        try:
            return self.list_display[int(part.removeprefix("-"))] in (self.sortable_by or ())
        except (IndexError, ValueError):
            return False

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        keys = self.paginator.keys
        if self.multi_page and not (self.show_all and self.can_show_all):
            keys = keys[(self.page_num - 1) * self.list_per_page :][: self.list_per_page]
        rows: Any = self.queryset.order_by().filter(pk__in=keys).defer(*self.deferred)
        found = {row.pk: row for row in rows}
        self.result_list = [found[key] for key in keys if key in found]


def count_up_to(rows: QuerySet[Any], limit: int = 1_000, *, at_least: bool = False) -> tuple[int, str]:
    """How many there are, and as people read it: "12", or "1,000+". `at_least`: there may be more."""
    count = rows.order_by()[: limit + 1].count()
    text = number_format(min(count, limit), use_l10n=True, force_grouping=True)
    return count, f"{text}+" if at_least or count > limit else text


def first_of_waiting(hooks: HookQuerySet, number: int) -> tuple[HookQuerySet, bool]:
    """The most urgent ones of those that wait, and whether there are others."""
    edge = hooks.pending().most_urgent().values_list("expires_at", "pk")[number : number + 1].first()
    if edge is None:
        return hooks, False
    at, pk = edge
    if at is None:
        return hooks.filter(Q(expires_at__isnull=False) | Q(expires_at=None, pk__lt=pk)), True
    return hooks.filter(Q(expires_at__lt=at) | Q(pk__lt=pk), expires_at__lte=at), True


def newest_key(request: HttpRequest, model: type[Model]) -> int:
    """Asked once for a request."""
    name = f"_stephooks_newest_key_of_{model._meta.model_name}"
    if not hasattr(request, name):
        key = model._default_manager.order_by("-pk").values_list("pk", flat=True).first()
        setattr(request, name, key or 0)
    return int(getattr(request, name))


def newest_values(request: HttpRequest, model: type[Model], *fields: str) -> list[tuple[Any, ...]]:
    """What the newest rows have in these columns; asked once for a request."""
    name = f"_stephooks_newest_{model._meta.model_name}"
    if not hasattr(request, name):
        rows = model._default_manager.order_by("-pk").values_list(*fields)[:NEWEST]
        setattr(request, name, list(rows))
    found: list[tuple[Any, ...]] = getattr(request, name)
    return found
