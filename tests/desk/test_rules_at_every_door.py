"""Each rule at each door: a question that may not be answered is not, and the same sentence says why.

Somebody opens a door while all is well; then a rule comes in their way; then they answer. So what
is tested is what a door does, not what it has shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission

from django_stephooks import (
    HookAlreadyReceivedError,
    HookCancelledError,
    HookExpiredError,
    NotAllowedError,
    StepHooksError,
    resume_hook,
)
from django_stephooks.models import Event, Hook, Run
from django_stephooks.services.runs import cancel_run
from django_stephooks.services.sweep import sweep
from tests.clock import Clock
from tests.factories import HookFactory, UserFactory

from .doors import DOORS, Bulk, Door

pytestmark = pytest.mark.django_db

APPROVED = {"approved": True, "comment": "Fine.", "reviewer": "dana"}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """`comes` makes it apply. `sentence` is that of the rule book; `kindly` what pages say instead, and
    `counted` what an answer to many questions says of this one."""

    comes: Callable[[Any, Hook, Clock], Any]
    error: type[StepHooksError]
    sentence: str
    kindly: str = ""
    counted: str


@dataclass(frozen=True, kw_only=True)
class Instead:
    """What holds at a door that can not express a rule. `looking`: what is said to whoever comes later."""

    status: int
    says: str
    looking: str


def lose_permission(dana: Any, hook: Hook, clock: Clock) -> None:
    dana.user_permissions.remove(Permission.objects.get(codename="review_hook"))


def put_to_others(dana: Any, hook: Hook, clock: Clock) -> None:
    hook.reviewers = ["user:0"]
    hook.save()


def be_the_starter(dana: Any, hook: Hook, clock: Clock) -> None:
    Run.objects.filter(pk=hook.run_id).update(started_by=dana)


def be_deactivated(dana: Any, hook: Hook, clock: Clock) -> None:
    dana.is_active = False
    dana.save()


def pass_the_deadline(dana: Any, hook: Hook, clock: Clock) -> None:
    clock.advance("2h")


def expire(dana: Any, hook: Hook, clock: Clock) -> None:
    clock.advance("2h")
    sweep()


def answer(dana: Any, hook: Hook, clock: Clock) -> None:
    lou = UserFactory(username="lou", reviewer=True)
    payload = {"approved": False, "comment": "The numbers do not add up.", "reviewer": "lou"}
    resume_hook(hook.token, payload, by=lou)


def let_another_be_first(dana: Any, hook: Hook, clock: Clock) -> None:
    Hook.objects.filter(pk=hook.pk).update(race=hook.call)
    other = HookFactory(run=hook.run, call="other:1", name="other", race=hook.call)
    resume_hook(other.token, {"approved": False}, by=UserFactory(username="lou", reviewer=True))


def cancel(dana: Any, hook: Hook, clock: Clock) -> None:
    cancel_run(hook.run)


def finish(dana: Any, hook: Hook, clock: Clock) -> None:
    """With the question left open, which the services do not do."""
    runs = Run.objects.filter(pk=hook.run_id)
    runs.update(status=Run.Status.COMPLETED, due_at=None, finished_at=clock())


NOT_YOURS = "Hook 'approve' of run {run} may not be answered by {who}: "
LATE = "Hook 'approve' of run {run} expired at 2026-11-30 13:00 UTC; nobody had answered it."
LATE_KINDLY = "The deadline passed at 2026-11-30 13:00 UTC and nobody had answered: it is too late now."

RULES = {
    "no permission": Rule(
        comes=lose_permission,
        error=NotAllowedError,
        sentence=f"{NOT_YOURS}that takes the permission to answer hooks (django_stephooks.review_hook).",
        counted="1 not yours to review",
    ),
    "not a reviewer": Rule(
        comes=put_to_others,
        error=NotAllowedError,
        sentence=f"{NOT_YOURS}it was put to other reviewers.",
        counted="1 not yours to review",
    ),
    "self-review": Rule(
        comes=be_the_starter,
        error=NotAllowedError,
        sentence=f"{NOT_YOURS}whoever started the run can not answer its questions; ask somebody else to.",
        counted="1 not yours to review",
    ),
    "inactive user": Rule(
        comes=be_deactivated,
        error=NotAllowedError,
        sentence=f"{NOT_YOURS}the account is not active.",
        counted="1 not yours to review",
    ),
    "past its deadline": Rule(
        comes=pass_the_deadline,
        error=HookExpiredError,
        sentence=LATE,
        kindly=LATE_KINDLY,
        counted="1 expired",
    ),
    "expired": Rule(
        comes=expire,
        error=HookExpiredError,
        sentence=LATE,
        kindly=LATE_KINDLY,
        counted="1 expired",
    ),
    "answered": Rule(
        comes=answer,
        error=HookAlreadyReceivedError,
        sentence=(
            "Hook 'approve' of run {run} was already answered by lou at 2026-11-30 12:00 UTC (rejected)."
        ),
        kindly="Already rejected by lou 0 s ago: 'The numbers do not add up.'",
        counted="1 already answered",
    ),
    "another was first": Rule(
        comes=let_another_be_first,
        error=HookCancelledError,
        sentence=(
            "Hook 'approve' of run {run} is no longer asked: somebody else was asked too, "
            "and answered first, at 2026-11-30 12:00 UTC."
        ),
        kindly="Somebody else was asked too, and answered first, 0 s ago: nothing is left to do here.",
        counted="1 no longer asked",
    ),
    "cancelled": Rule(
        comes=cancel,
        error=HookCancelledError,
        sentence="Hook 'approve' of run {run} is no longer asked: the run is cancelled.",
        kindly="This is no longer asked: the run is cancelled.",
        counted="1 no longer asked",
    ),
    "run finished": Rule(
        comes=finish,
        error=HookCancelledError,
        sentence="Hook 'approve' of run {run} is no longer asked: the run is completed.",
        kindly="This is no longer asked: the run is completed.",
        counted="1 no longer asked",
    ),
}

# Whoever is not active is logged in nowhere, so the site asks who they are before it says anything.
ASKED_TO_LOG_IN = Instead(status=302, says="/admin/login/?next=", looking="/admin/login/?next=")
UNKNOWN = Instead(
    status=403,
    says="Authentication credentials were not provided.",
    looking="Authentication credentials were not provided.",
)
# The list offers no such action to whoever may answer nothing at all: asked for it, it only shows itself.
NO_BULK = Instead(status=403, says="403 Forbidden", looking="Hooks | Django site admin")

INSTEAD: dict[tuple[str, str], Instead | None] = {
    ("inactive user", "admin page"): ASKED_TO_LOG_IN,
    ("inactive user", "bulk"): ASKED_TO_LOG_IN,
    ("inactive user", "bulk with select_across"): ASKED_TO_LOG_IN,
    ("inactive user", "API approve"): UNKNOWN,
    ("inactive user", "API resume"): UNKNOWN,
    ("inactive user", "link with a login"): Instead(
        status=403, says="you are not logged in any more", looking="/accounts/login/?next=/review/"
    ),
    ("no permission", "bulk"): NO_BULK,
    ("no permission", "bulk with select_across"): NO_BULK,
    # None: the answer is taken. A link to an address is itself the permission to answer…
    ("no permission", "link to an address"): None,
    # … and the token of a hook is the whole authority: nobody has an account there.
    ("no permission", "API token"): None,
    ("not a reviewer", "API token"): None,
    ("self-review", "API token"): None,
    ("inactive user", "API token"): None,
}


@pytest.fixture
def hook(clock: Clock) -> Hook:
    return HookFactory(title="Publish 'Fog'?", expires_at=clock() + timedelta(hours=1))


def journal(hook: Hook) -> list[tuple[str, Any]]:
    return list(Event.objects.filter(run=hook.run_id).order_by("pk").values_list("type", "data"))


def row(hook: Hook) -> dict[str, Any]:
    return Hook.objects.filter(pk=hook.pk).values().get()


def is_taken(hook: Hook) -> bool:
    found = row(hook)
    return (found["status"], found["payload"]["approved"]) == ("received", True)


@pytest.mark.parametrize("door", DOORS)
def test_every_door_takes_an_answer_that_nothing_speaks_against(door: str, dana: Any, hook: Hook) -> None:
    through = DOORS[door](dana, hook)
    through.open()
    reply = through.answer(APPROVED)
    assert reply.status in (200, 302, None), reply.said
    assert is_taken(hook)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", RULES)
def test_rule_holds_and_is_said_alike(name: str, door: str, dana: Any, hook: Hook, clock: Clock) -> None:
    rule, through = RULES[name], DOORS[door](dana, hook)
    through.open()
    rule.comes(dana, hook, clock)
    before, told = row(hook), journal(hook)

    reply = through.answer(APPROVED)

    if (name, door) in INSTEAD and INSTEAD[name, door] is None:
        assert is_taken(hook)
        return
    if name == "past its deadline" and row(hook)["status"] == "expired":
        # What everybody could know is written down by whoever comes by.
        before |= {name: row(hook)[name] for name in ("status", "settled_at", "answered_by_label")}
        told.append(("hook_expired", {"by": "system (deadline)"}))
    assert row(hook) == before
    assert journal(hook) == told
    assert not LogEntry.objects.exists()
    expect(through, rule, INSTEAD.get((name, door)), reply)


def expect(through: Door, rule: Rule, instead: Instead | None, reply: Any) -> None:
    """The reply is the one of this rule at this door."""
    if instead is not None:
        assert (reply.status, instead.says in reply.said) == (instead.status, True), reply
        assert instead.looking in through.look()
        return
    sentence = rule.sentence.format(run=through.hook.run_id, who=through.refused_as)
    if through.speaks_kindly and rule.kindly:
        sentence = rule.kindly
    if isinstance(through, Bulk):
        # It counts what came of all that were selected; the sentence stands on the page before.
        assert (reply.status, rule.counted in reply.said) == (302, True), reply
    else:
        assert sentence in reply.said
    if through.has_status and not isinstance(through, Bulk):
        assert reply.status == through.status_of(rule.error)
    if through.has_error:
        assert (reply.error, reply.said) == (rule.error, sentence)
    assert sentence in through.look()


def test_exceptions_are_those_of_doors_and_rules_that_there_are() -> None:
    assert {name for name, _door in INSTEAD} <= set(RULES)
    assert {door for _name, door in INSTEAD} <= set(DOORS)
