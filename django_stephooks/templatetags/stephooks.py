"""`{% load stephooks %}`: what the desk's templates, and those that override them, write with."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import template
from django.db.models import F
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from django_stephooks.models import Hook
from django_stephooks.review import marks
from django_stephooks.review.values import printable_text
from django_stephooks.services.awaiting import awaiting

PANEL = 5

register = template.Library()

register.filter("stephooks_moment", marks.moment)
register.filter("stephooks_run_status", marks.run_status)
register.filter("stephooks_text", printable_text)


@register.simple_tag
def stephooks_deadline(value: datetime | None, now: datetime) -> str:
    """A time and how far away it is: `{% stephooks_deadline hook.expires_at now %}`."""
    return marks.deadline(value, now=now)


@register.inclusion_tag("django_stephooks/admin/awaiting.html", takes_context=True)
def stephooks_awaiting(context: Any) -> dict[str, Any]:
    """The five most urgent questions that await the user's review; nothing at all if there are none."""
    request = context.get("request")
    user = getattr(request, "user", None)
    if user is None or not user.is_active or not user.has_perm("django_stephooks.view_hook"):
        return {}
    site = getattr(request, "current_app", None) or getattr(request.resolver_match, "namespace", None)

    def url(page: str, *args: Any) -> str:
        return reverse(f"admin:django_stephooks_hook_{page}", args=args, current_app=site)

    now = timezone.now()
    hooks = awaiting(user, Hook.objects.all(), now=now).order_by(F("expires_at").asc(nulls_last=True), "pk")
    columns = ("title", "name", "status", "on_timeout", "expires_at")
    found = list(hooks.only(*columns)[: PANEL + 1])
    try:
        return {
            "hooks": [
                (hook, url("change", hook.pk), marks.hook_status(hook, now=now)) for hook in found[:PANEL]
            ],
            "more": len(found) > PANEL,
            "list_url": f"{url('changelist')}?awaiting=me",
            "now": now,
        }
    except NoReverseMatch:
        # An admin site that does not have the desk.
        return {}
