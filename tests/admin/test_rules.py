"""The rule book: who may answer a hook, and what is said to those who may not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.models import AnonymousUser, Group, Permission

from django_stephooks import (
    HookAlreadyReceivedError,
    HookCancelledError,
    HookExpiredError,
    NotAllowedError,
    resume_hook,
)
from django_stephooks.models import Hook
from django_stephooks.services.rules import actions_for, run_actions_for
from tests.factories import HookFactory, RunFactory, UserFactory

from .pages import UNREADABLE, again

pytestmark = pytest.mark.django_db


def reviewer(**fields: Any) -> Any:
    return UserFactory(username="dana", reviewer=True, **fields)


def in_group(user: Any) -> Hook:
    group = Group.objects.create(name="Editors")
    user.groups.add(group)
    return HookFactory(reviewers=[f"group:{group.pk}"])


def holder_of_any(reviewers: list[str]) -> tuple[Any, Hook]:
    user = reviewer()
    user.user_permissions.add(Permission.objects.get(codename="review_any_hook"))
    return user, HookFactory(reviewers=reviewers)


ALLOWED: dict[str, Callable[[], tuple[Any, Hook]]] = {
    "with the permission": lambda: (reviewer(), HookFactory()),
    "superuser": lambda: (UserFactory(superuser=True), HookFactory()),
    "named": lambda: ((user := reviewer()), HookFactory(reviewers=["user:0", f"user:{user.pk}"])),
    "in a named group": lambda: ((user := reviewer()), in_group(user)),
    "named by address": lambda: (
        reviewer(email="Dana@Example.com"),
        HookFactory(reviewers=["email:dana@example.COM"]),
    ),
    "may answer for others": lambda: holder_of_any(["user:0"]),
    "past the deadline, but it goes on waiting": lambda: (reviewer(), HookFactory(overdue=True)),
    "put to an empty list": lambda: (reviewer(), HookFactory(reviewers=[])),
}

REFUSED: dict[str, tuple[Callable[[], tuple[Any, Hook]], type[Exception], str]] = {
    "without the permission": (
        lambda: (UserFactory(username="dana", permissions=["view_hook"]), HookFactory()),
        NotAllowedError,
        "may not be answered by dana: that takes the permission to answer hooks",
    ),
    "inactive": (
        lambda: (reviewer(is_active=False), HookFactory()),
        NotAllowedError,
        "may not be answered by dana: the account is not active",
    ),
    "nobody": (lambda: (AnonymousUser(), HookFactory()), NotAllowedError, "log in first"),
    "not named": (
        lambda: (reviewer(), HookFactory(reviewers=["user:0", "group:0", "email:lou@example.com"])),
        NotAllowedError,
        "may not be answered by dana: it was put to other reviewers",
    ),
    "no address, and one without is named": (
        lambda: (reviewer(email=""), HookFactory(reviewers=["email:"])),
        NotAllowedError,
        "put to other reviewers",
    ),
    "nobody can read who is named": (
        lambda: (reviewer(), HookFactory(reviewers=UNREADABLE)),
        NotAllowedError,
        "put to other reviewers",
    ),
    "started the run": (
        lambda: ((user := reviewer()), HookFactory(run__started_by=user)),
        NotAllowedError,
        "may not be answered by dana: whoever started the run can not answer its questions",
    ),
    "started the run as a superuser": (
        lambda: ((user := UserFactory(superuser=True)), HookFactory(run__started_by=user)),
        NotAllowedError,
        "whoever started the run",
    ),
    "answered": (
        lambda: (reviewer(), HookFactory(received=True, by="lou")),
        HookAlreadyReceivedError,
        "was already answered by lou",
    ),
    "expired": (lambda: (reviewer(), HookFactory(expired=True)), HookExpiredError, "expired at"),
    "expired, but no sweep came by": (
        lambda: (reviewer(), HookFactory(past_deadline=True)),
        HookExpiredError,
        "expired at",
    ),
    "cancelled": (
        lambda: (reviewer(), HookFactory(cancelled=True)),
        HookCancelledError,
        "no longer asked: the run is cancelled",
    ),
    "answered, and without the permission": (
        lambda: (UserFactory(), HookFactory(received=True)),
        NotAllowedError,
        "that takes the permission",
    ),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_who_may_answer(case: str) -> None:
    user, hook = ALLOWED[case]()
    decision = actions_for(user, again(hook))
    assert (decision.may_answer, decision.reason, decision.error) == (True, "", None)
    resume_hook(hook.token, {"approved": True}, by=user)
    assert again(hook).status == Hook.Status.RECEIVED


@pytest.mark.parametrize("case", REFUSED)
def test_who_may_not_is_told_why_by_the_book_and_by_the_door_alike(case: str) -> None:
    situation, error, sentence = REFUSED[case]
    user, hook = situation()
    before = again(hook).payload
    decision = actions_for(user, hook)
    assert not decision.may_answer
    assert decision.error is error
    assert sentence in decision.reason
    with pytest.raises(error) as caught:
        resume_hook(hook.token, {"approved": True}, by=user)
    assert str(caught.value) == decision.reason
    assert again(hook).payload == before


def test_self_review_can_be_allowed(settings: Any) -> None:
    settings.STEPHOOKS = {**settings.STEPHOOKS, "ALLOW_SELF_REVIEW": True}
    user = reviewer()
    assert actions_for(user, HookFactory(run__started_by=user)).may_answer


def test_permission_for_one_hook_is_enough(settings: Any) -> None:
    settings.AUTHENTICATION_BACKENDS = [
        *settings.AUTHENTICATION_BACKENDS,
        f"{__name__}.OneHookBackend",
    ]
    user = UserFactory(username="dana")
    mine, other = HookFactory(title="Dana's"), HookFactory()
    assert actions_for(user, mine).may_answer
    assert actions_for(user, other).error is NotAllowedError


class OneHookBackend(BaseBackend):
    """What django-guardian and rules do: permissions of single rows."""

    def has_perm(self, user: Any, permission: str, obj: Any = None) -> bool:
        return permission == "django_stephooks.review_hook" and getattr(obj, "title", "") == "Dana's"


@pytest.mark.parametrize("by", [None, "link sent to lou@example.com"])
def test_who_is_no_user_has_the_token_as_authority(by: Any) -> None:
    hook = HookFactory(reviewers=["user:0"])
    resume_hook(hook.token, {"approved": True}, by=by)
    assert again(hook).status == Hook.Status.RECEIVED


@pytest.mark.parametrize(
    ("state", "actions"),
    [
        ("suspended", {"cancel"}),
        ("running", {"cancel"}),
        ("failed", {"cancel", "retry"}),
        ("completed", set()),
        ("cancelled", set()),
    ],
)
def test_what_may_be_done_with_a_run(state: str, actions: set[str]) -> None:
    run = RunFactory(**{state: True})
    operator = UserFactory(permissions=["cancel_run", "retry_run"])
    assert run_actions_for(operator, run) == actions
    assert run_actions_for(UserFactory(permissions=["view_run"]), run) == set()
