"""The rule book: what a user may do with a hook now, and if nothing, why.

The faces read it to show what is possible; `resume_hook` reads it again under the run's lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Model
from django.utils import timezone

from django_stephooks.conf import app_settings
from django_stephooks.exceptions import (
    HookAlreadyReceivedError,
    HookCancelledError,
    HookExpiredError,
    NotAllowedError,
    SerializationError,
    StepHooksError,
)
from django_stephooks.models import Hook, Run
from django_stephooks.types import SYSTEM_RACE

REVIEW = "django_stephooks.review_hook"
REVIEW_ANY = "django_stephooks.review_any_hook"
VIEW_RUN = "django_stephooks.view_run"
CANCEL = "django_stephooks.cancel_run"
RETRY = "django_stephooks.retry_run"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Whether a user may answer a hook now; if not, the sentence that says why, and its error class."""

    may_answer: bool
    reason: str = ""
    error: type[StepHooksError] | None = None


def actions_for(user: Any, hook: Hook, *, now: datetime | None = None) -> Decision:
    """What the user may do with the hook now. Whoever may not is told so first, whatever became of it."""
    error = not_allowed(user, hook, hook.run) or refusal(hook, hook.run, now or timezone.now())
    if error is None:
        return Decision(may_answer=True)
    return Decision(may_answer=False, reason=str(error), error=type(error))


def run_actions_for(user: Any, run: Run) -> frozenset[str]:
    """What the user may do with the run now, of "cancel" and "retry"."""
    found = set()
    if (not run.is_finished or run.status == Run.Status.FAILED) and has_permission(user, CANCEL, run):
        found.add("cancel")
    if run.status == Run.Status.FAILED and has_permission(user, RETRY, run):
        found.add("retry")
    return frozenset(found)


def is_user(by: Any) -> bool:
    """Whether an answer comes from somebody whom the rules can be asked about: a user with permissions."""
    return hasattr(by, "get_username") and hasattr(by, "has_perm")


def has_permission(user: Any, permission: str, thing: Any) -> bool:
    """Has it in general, or for this one row, by a backend that knows rows (django-guardian, rules)."""
    return bool(user.has_perm(permission) or user.has_perm(permission, thing))


def not_allowed(user: Any, hook: Hook, run: Run) -> NotAllowedError | None:
    """Why this user may never answer this hook, or None."""
    why = ""
    if not user.is_active:
        why = "the account is not active" if user.is_authenticated else "log in first"
    elif not has_permission(user, REVIEW, hook):
        why = f"that takes the permission to answer hooks ({REVIEW})"
    elif run.started_by_id == user.pk and not app_settings.ALLOW_SELF_REVIEW:
        why = "whoever started the run can not answer its questions; ask somebody else to"
    elif not _is_reviewer(user, hook):
        why = "it was put to other reviewers"
    if not why:
        return None
    who = user.get_username() or "an unknown user"
    return NotAllowedError(f"{_name(hook)} may not be answered by {who}: {why}.")


def _is_reviewer(user: Any, hook: Hook) -> bool:
    """Whether the hook was put to everybody, to this user, or to others whose hooks they may answer."""
    reviewers = reviewers_of(hook)
    if not reviewers or has_permission(user, REVIEW_ANY, hook):
        return True
    return not {_folded(reviewer) for reviewer in reviewers}.isdisjoint(identities(user))


def reviewers_of(hook: Hook) -> list[Any]:
    """Whom the hook was put to, as it is stored; [None], which is nobody, if that can not be read."""
    try:
        reviewers = hook.reviewers
    except SerializationError:
        return [None]
    if reviewers is None:
        return []
    return reviewers if isinstance(reviewers, list) else [None]


def identities(user: Any) -> set[str]:
    """What `Hook.reviewers` may call this user: themselves, their groups, their address."""
    found = {f"user:{user.pk}"}
    if hasattr(user, "groups"):
        found |= {f"group:{pk}" for pk in _group_keys(user)}
    if email := getattr(user, user.get_email_field_name(), ""):
        found.add(_folded(f"email:{email}"))
    return found


def _group_keys(user: Any) -> list[Any]:
    """Asked once for each user object, as its permissions are: a request has one, and its lists many rows."""
    keys: list[Any] | None = getattr(user, "_stephooks_groups", None)
    if keys is None:
        keys = list(user.groups.values_list("pk", flat=True))
        if isinstance(user, Model):
            setattr(user, "_stephooks_groups", keys)  # noqa: B010
    return keys


def _folded(reviewer: Any) -> str:
    # Addresses are compared without regard to case; the rest is digits, or a UUID in lower case.
    return str(reviewer).casefold()


def refusal(hook: Hook, run: Run, now: datetime) -> StepHooksError | None:
    """Why nobody can answer this hook now, or None. Answered is told before expired, before cancelled."""
    if hook.status == Hook.Status.RECEIVED:
        who = f" by {hook.answered_by_label}" if hook.answered_by_label else ""
        return HookAlreadyReceivedError(
            f"{_name(hook)} was already answered{who} at {at(hook.settled_at)}{_verdict(hook)}.",
            hook=hook,
        )
    if hook.status == Hook.Status.EXPIRED or hook.is_past_deadline(now):
        return HookExpiredError(
            f"{_name(hook)} expired at {at(hook.expires_at)}; nobody had answered it.", hook=hook
        )
    if has_lost_race(hook):
        return HookCancelledError(
            f"{_name(hook)} is no longer asked: somebody else was asked too, and answered first, "
            f"at {at(hook.settled_at)}.",
            hook=hook,
        )
    if hook.status == Hook.Status.CANCELLED or run.is_finished:
        return HookCancelledError(f"{_name(hook)} is no longer asked: the run is {run.status}.", hook=hook)
    return None


def has_lost_race(hook: Hook) -> bool:
    """Whether it was withdrawn because one that was asked at the same time was answered first."""
    return hook.status == Hook.Status.CANCELLED and hook.answered_by_label == SYSTEM_RACE.label


def at(moment: datetime | None) -> str:
    """A time as an error says it: "2026-11-29 14:02 UTC"."""
    return f"{timezone.localtime(moment):%Y-%m-%d %H:%M %Z}" if moment else "an unknown time"


def approval(hook: Hook) -> bool | None:
    """Whether it was approved or rejected; None if its answer is of another kind, or there is none."""
    try:
        payload = hook.payload
    except SerializationError:
        return None
    approved = payload.get("approved") if isinstance(payload, dict) else None
    return approved if isinstance(approved, bool) else None


def _verdict(hook: Hook) -> str:
    return {True: " (approved)", False: " (rejected)", None: ""}[approval(hook)]


def _name(hook: Hook) -> str:
    return f"Hook {hook.name!r} of run {hook.run_id}"
