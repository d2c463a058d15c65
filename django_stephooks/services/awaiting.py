"""Which hooks wait for a user's answer: the rule book as a query, for lists."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from django.db.models import Q, TextField
from django.db.models.functions import Cast
from django.utils import timezone

from django_stephooks.conf import app_settings
from django_stephooks.models.hook import HookQuerySet

from .rules import REVIEW, REVIEW_ANY, identities


def awaiting(user: Any, hooks: HookQuerySet, *, now: datetime | None = None) -> HookQuerySet:
    """Those of the hooks that this user may answer now.

    By what the user may do in general: a permission for single rows, which only a backend that knows
    rows can tell, does not count here.
    """
    if not user.is_active or not user.has_perm(REVIEW):
        return hooks.none()
    hooks = hooks.waiting(now or timezone.now())
    if not app_settings.ALLOW_SELF_REVIEW:
        hooks = hooks.exclude(run__started_by_id=user.pk)
    if user.has_perm(REVIEW_ANY):
        return hooks
    put_to = Q(reviewers=None)
    for identity in identities(user):
        # As it stands in the recorded list, with its quotes, so that "user:1" is not found in "user:12".
        put_to |= Q(put_to__icontains=json.dumps(identity, ensure_ascii=False))
    return hooks.alias(put_to=Cast("reviewers", TextField())).filter(put_to)
