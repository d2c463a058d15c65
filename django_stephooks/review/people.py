"""Whom a hook was put to, by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db.models import Model
from django.utils.translation import gettext as _

from django_stephooks.models import Hook
from django_stephooks.services.rules import reviewers_of

from .values import printable_text


def reviewer_names(hook: Hook) -> list[str]:
    """Users, groups and addresses as people know them; nothing if anybody with the permission may answer."""
    found = reviewers_of(hook)
    if None in found:
        return [_("somebody whose name can not be read")]
    reviewers = [str(reviewer).partition(":")[::2] for reviewer in found]
    users = _names(get_user_model(), [which for kind, which in reviewers if kind == "user"])
    groups = _names(Group, [which for kind, which in reviewers if kind == "group"])
    gone = {"user": _("a user who is gone"), "group": _("a group that is gone")}
    known = {"user": users, "group": groups}
    return [
        printable_text(known[kind].get(which, gone[kind]) if kind in known else which)
        for kind, which in reviewers
    ]


def _names(model: type[Model], pks: Iterable[str]) -> dict[str, str]:
    if not pks:
        return {}
    rows: Any = model._default_manager
    try:
        return {str(row.pk): str(row) for row in rows.filter(pk__in=pks)}
    except (OverflowError, ValueError, ValidationError):
        # Keys of another kind: the site has changed its user model.
        return {}
