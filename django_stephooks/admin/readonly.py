"""What the pages of hooks and runs have in common: rows are only looked at; acting has its own pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.contrib.admin.exceptions import NotRegistered
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.templatetags.admin_urls import add_preserved_filters
from django.contrib.admin.utils import quote, unquote
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from django_stephooks.models import Run
from django_stephooks.review.values import printable_text

from .paging import SEARCHED, BoundedPaginator, newest_key

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = admin.ModelAdmin


class ReadOnlyAdmin(_ModelAdmin):
    """A list and a page; nobody adds, changes or deletes a row by hand."""

    actions: Any = None
    list_per_page = 50
    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    change_list_template = "django_stephooks/admin/list.html"
    page_template = ""
    search_help: Any = ""
    # Where a search for "41" or "#41" finds run 41.
    run_field = ""

    class Media:
        css: ClassVar[dict[str, list[str]]] = {"all": ["django_stephooks/desk.css"]}
        js: ClassVar[list[str]] = ["django_stephooks/desk.js"]

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        _refuse_what_no_page_sends(request)
        # Django's own title is "Select … to view".
        title = str(self.opts.verbose_name_plural).capitalize()
        # A POST is an action or nothing; it leads to another page.
        context = self.list_context(request) if request.method == "GET" else {}
        context["search_help"] = self.search_help
        if not self.is_searched_whole(request) and newest_key(request, self.model) > SEARCHED:
            count = number_format(SEARCHED, force_grouping=True)
            context["search_bound"] = _("Words are searched for among the newest %(count)s.") % {
                "count": count
            }
        return super().changelist_view(request, {"title": title, **context, **(extra_context or {})})

    def is_searched_whole(self, request: HttpRequest) -> bool:
        """Whether the list is short enough to look for words in all of its rows."""
        return False

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """Only what the filters offer: one made by hand may take for ever, a regular expression above all."""
        if any(lookup == getattr(one, "parameter_name", None) for one in self.list_filter):
            return True
        fields = [one[0] if isinstance(one, tuple) else one for one in self.list_filter]
        offered = any(f"{lookup}__".startswith(f"{name}__") for name in fields if isinstance(name, str))
        return offered and not lookup.endswith("regex") and super().lookup_allowed(lookup, value, request)

    def list_context(self, request: HttpRequest) -> dict[str, Any]:
        """What the list's template is given besides Django's own."""
        return {}

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        searched = Q()
        if search_term and not self.is_searched_whole(request):
            searched = Q(pk__gt=newest_key(request, self.model) - SEARCHED)
        found, may_have_duplicates = super().get_search_results(
            request, queryset.filter(searched), search_term
        )
        if keys := [key for runs in (_run_numbered, runs_about) for key in self._keys_of(runs(search_term))]:
            found |= queryset.filter(pk__in=keys)
            if searched:
                # It says nothing new, but here, outside of the other OR, it is what an index can do.
                found = found.filter(searched | Q(pk__in=keys))
        return found, may_have_duplicates

    def _keys_of(self, runs: list[int]) -> list[int]:
        """The keys of the list's rows for these runs: as a join, the OR of a search would use no index."""
        if not runs:
            return []
        rows = self.model._default_manager.filter(**{f"{self.run_field}__in": runs}).order_by("-pk")
        return list(rows.values_list("pk", flat=True)[:MAX_FOUND])

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        row = self.get_object(request, unquote(object_id))
        if request.method not in ("GET", "HEAD") or not self.has_view_permission(request, row):
            raise PermissionDenied
        if row is None:
            gone: HttpResponse = super().change_view(request, object_id, form_url, extra_context)
            return gone  # Django's own: a message on the front page
        return self.page(request, row, **(extra_context or {}))

    def page(self, request: HttpRequest, row: Any, **context: Any) -> HttpResponse:
        """The page of one row."""
        raise NotImplementedError

    def render(
        self, request: HttpRequest, template: str, row: Model | None, *, status: int = 200, **context: Any
    ) -> TemplateResponse:
        """A page of ours in this admin site, which need not be the default one."""
        request.current_app = self.admin_site.name
        return TemplateResponse(
            request,
            template,
            {
                **self.admin_site.each_context(request),
                "opts": self.opts,
                "original": row,
                "media": self.media,
                "has_view_permission": True,
                "preserved_filters": self.get_preserved_filters(request),
                "now": timezone.now(),
                **context,
            },
            status=status,
        )

    def url_of(self, row: Model, page: str = "change") -> str:
        """A page of one row of ours (or of the other model's) in this admin site."""
        opts = row._meta
        name = f"admin:{opts.app_label}_{opts.model_name}_{page}"
        return reverse(name, args=[quote(row.pk)], current_app=self.admin_site.name)

    def url_back(self, request: HttpRequest, row: Model, page: str = "change") -> str:
        """The same, keeping the filters of the list that the user came from."""
        return self.keeping_filters(request, self.url_of(row, page))

    def url_named(self, page: str) -> str:
        """A page that is not of one row."""
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_{page}"
        return reverse(name, current_app=self.admin_site.name)

    def list_url(self, request: HttpRequest) -> str:
        """The list as the user left it."""
        return self.keeping_filters(request, self.url_named("changelist"))

    def keeping_filters(self, request: HttpRequest, url: str) -> str:
        context: Any = {"opts": self.opts, "preserved_filters": self.get_preserved_filters(request)}
        return add_preserved_filters(context, url)

    def link_to(self, request: HttpRequest, row: Model) -> str:
        """The page of any row in this admin site; "" if it has none, or not for this user."""
        try:
            its_admin = self.admin_site.get_model_admin(type(row))
        except NotRegistered:
            return ""
        return self.url_of(row) if its_admin.has_view_permission(request, row) else ""

    def subject_of(self, request: HttpRequest, run: Run) -> tuple[str, str] | None:
        """What a run is about and, if there is one, a link to it."""
        try:
            subject = run.subject
        except (AttributeError, ValueError, ValidationError):
            # Its model is gone, or has keys of another kind now.
            subject = None
        if subject is not None:
            return printable_text(subject), self.link_to(request, subject)
        if label := subject_label(run):
            return _("%(subject)s (gone)") % {"subject": label}, ""
        return None


def _refuse_what_no_page_sends(request: HttpRequest) -> None:
    """BadRequest for what databases choke on; Django's list would hand it to them."""
    if any("\x00" in text for name, values in request.GET.lists() for text in (name, *values)):
        raise BadRequest("The address of a list has no NUL characters.")
    if not all(map(_is_key, request.POST.getlist(ACTION_CHECKBOX_NAME))):
        raise BadRequest("What is selected are rows by their keys.")


def subject_label(run: Run) -> str:
    """What a run is about without asking for its row: "article 12"."""
    if not run.subject_id:
        return ""
    kind = run.subject_type.name if run.subject_type else _("something")
    return printable_text(f"{kind} {run.subject_id}")


MAX_FOUND = 500


def _run_numbered(text: str) -> list[int]:
    number = text.strip().removeprefix("#")
    return [int(number)] if _is_key(number) else []


def _is_key(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19


def runs_about(text: str) -> list[int]:
    """The runs whose subject is called so: "article 12", or only "12"."""
    *words, key = text.split() or [""]
    kind = " ".join(words).lower()
    if not key or len(key) > 64 or "\x00" in key:
        return []
    types = ContentType.objects.all()
    wanted = [one for one in types if not kind or kind in (one.name.lower(), one.model)]
    runs = Run.objects.filter(subject_type__in=wanted, subject_id=key).order_by("-pk")
    return list(runs.values_list("pk", flat=True)[:MAX_FOUND])
