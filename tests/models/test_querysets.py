"""Querysets own the questions about rows and every change of a status; what may not be changes nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from django_stephooks.models import Event, Hook, Run
from tests.clock import Clock
from tests.factories import CheckpointFactory, EventFactory, HookFactory, RunFactory, UserFactory

pytestmark = pytest.mark.django_db

STATES = ["pending", "running", "suspended", "completed", "failed", "cancelled"]


def run_in(state: str) -> Run:
    return RunFactory(**({} if state == "pending" else {state: True}))


CHANGES: dict[str, tuple[Any, set[str], str]] = {
    "claim": (lambda runs, now: runs.claim(lease_until=now), {"pending"}, "running"),
    "make_ready": (lambda runs, now: runs.make_ready(now), {"suspended"}, "pending"),
    "fail": (
        lambda runs, now: runs.fail(error={}, now=now),
        {"pending", "running", "suspended"},
        "failed",
    ),
    "cancel": (
        lambda runs, now: runs.cancel(now=now),
        {"pending", "running", "suspended", "failed"},
        "cancelled",
    ),
    "retry": (lambda runs, now: runs.retry(now=now), {"failed"}, "pending"),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("change", CHANGES)
def test_a_run_changes_only_from_where_it_may(change: str, state: str) -> None:
    apply, allowed, becomes = CHANGES[change]
    run = run_in(state)
    changed = apply(Run.objects.filter(pk=run.pk), timezone.now())
    run.refresh_from_db()
    assert (changed, run.status) == ((1, becomes) if state in allowed else (0, state))


def test_a_lease_is_extended_only_for_the_turn_that_holds_it() -> None:
    run = RunFactory(running=True, turn=2)
    later = timezone.now() + timedelta(hours=1)
    assert Run.objects.filter(pk=run.pk).extend_lease(1, lease_until=later) == 0
    assert Run.objects.filter(pk=run.pk).extend_lease(2, lease_until=later) == 1


def test_a_claim_raises_the_number_of_the_turn() -> None:
    run = RunFactory(turn=3)
    Run.objects.filter(pk=run.pk).claim(lease_until=timezone.now())
    run.refresh_from_db()
    assert run.turn == 4


def test_questions_about_runs(clock: Clock) -> None:
    runs = {state: run_in(state) for state in STATES}
    sleeping = RunFactory(sleeping=True)
    crashed = RunFactory(crashed=True)
    assert list(Run.objects.ready()) == [runs["pending"]]
    assert set(Run.objects.active()) == {
        runs["pending"],
        runs["running"],
        runs["suspended"],
        sleeping,
        crashed,
    }
    assert list(Run.objects.lease_ended(clock.now)) == [crashed]
    assert not Run.objects.timers_due(clock.now).exists()
    assert list(Run.objects.timers_due(clock.advance("1h"))) == [sleeping]
    assert [run.is_finished for run in runs.values()] == [False, False, False, True, True, True]


def test_questions_about_hooks(clock: Clock) -> None:
    forever = HookFactory()
    hour = HookFactory(expires_at=clock.now + timedelta(hours=1))
    overdue = HookFactory(overdue=True)
    passed = HookFactory(past_deadline=True)
    received = HookFactory(received=True)
    expired = HookFactory(expired=True)
    cancelled = HookFactory(cancelled=True)

    assert set(Hook.objects.pending()) == {forever, hour, overdue, passed}
    assert set(Hook.objects.waiting(clock.now)) == {forever, hour, overdue}
    assert list(Hook.objects.past_deadline(clock.now)) == [passed]
    # What a row says of itself is what the queries say.
    for hook in Hook.objects.all():
        assert hook.is_waiting() == (hook in {forever, hour, overdue})
        assert hook.is_past_deadline() == (hook == passed)
        assert hook.is_overdue() == (hook == overdue)
    in_order = list(Hook.objects.waiting_first())
    assert set(in_order[:2]) == {passed, overdue}
    assert in_order[2:4] == [hour, forever]
    assert set(in_order[4:]) == {received, expired, cancelled}


def test_a_hook_is_settled_once() -> None:
    hook = HookFactory(received=True, answer=1)
    hooks = Hook.objects.filter(pk=hook.pk)
    now = timezone.now()
    assert hooks.expire(now=now + timedelta(days=9)) == []
    assert hooks.cancel(now=now, reason="") == []
    assert hooks.reopen() == 0
    hook.refresh_from_db()
    assert (hook.status, hook.payload) == (Hook.Status.RECEIVED, 1)


def test_a_cancelled_hook_can_be_reopened() -> None:
    hook = HookFactory(cancelled=True)
    assert Hook.objects.filter(pk=hook.pk).reopen() == 1
    hook.refresh_from_db()
    assert (hook.status, hook.settled_at) == (Hook.Status.PENDING, None)


def test_revoking_makes_another_token() -> None:
    hook = HookFactory()
    old = hook.token
    assert Hook.objects.filter(pk=hook.pk).revoke_tokens() == 1
    hook.refresh_from_db()
    assert hook.token != old


def test_the_journal_is_what_a_turn_replays_in_order() -> None:
    run = RunFactory()
    EventFactory(run=run, type=Event.Type.RUN_SUSPENDED)
    first = EventFactory(run=run, type=Event.Type.STEP_COMPLETED, call="a:1")
    second = EventFactory(run=run, type=Event.Type.HOOK_CREATED, call="b:1")
    EventFactory(run=run, type=Event.Type.HOOK_RECEIVED, call="b:1")
    assert list(Event.objects.filter(run=run).journal()) == [first, second]


def test_rows_are_shown_as_people_say_them() -> None:
    run = RunFactory(workflow="newsroom.workflows.publish_story")
    assert (run.label, str(run)) == ("publish story", f"publish story #{run.pk}")
    assert str(HookFactory(title="", name="human_review")) == "human review"
    assert str(HookFactory(title="Publish?")) == "Publish?"
    assert str(EventFactory(type="step_started", call="draft:1")) == "step_started draft:1"
    assert str(EventFactory(type="run_started")) == "run_started"
    assert str(CheckpointFactory(call="draft:1")) == "draft:1"


def test_deleting_a_run_deletes_what_belongs_to_it() -> None:
    hook = HookFactory(received=True, by=UserFactory(reviewer=True))
    CheckpointFactory(run=hook.run)
    hook.run.delete()
    assert not Hook.objects.exists()
    assert not Event.objects.exists()


def test_an_answer_outlives_the_user_who_gave_it() -> None:
    user = UserFactory(username="dana", reviewer=True)
    hook = HookFactory(received=True, by=user)
    user.delete()
    hook.refresh_from_db()
    assert (hook.answered_by, hook.answered_by_label) == (None, "dana")
