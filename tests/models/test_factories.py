"""The tests' own rows are like real ones: each trait is the state it says, and a run goes on from it."""

from __future__ import annotations

import pytest

from django_stephooks import STEP_HOOK_TIMEOUT, resume_hook
from django_stephooks.models import Event, Hook, Run
from django_stephooks.services.sweep import sweep
from tests.factories import ArticleFactory, CheckpointFactory, HookFactory, RunFactory, UserFactory


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("trait", "status"),
    [
        ("running", "running"),
        ("crashed", "running"),
        ("suspended", "suspended"),
        ("sleeping", "suspended"),
        ("completed", "completed"),
        ("failed", "failed"),
        ("cancelled", "cancelled"),
    ],
)
def test_runs_in_every_state(trait: str, status: str) -> None:
    run = Run.objects.get(pk=RunFactory(**{trait: True}).pk)
    assert run.status == status
    assert run.is_finished == (run.finished_at is not None)
    ends = [type for type in run.events.values_list("type", flat=True) if type != "run_started"]
    assert ends == ([f"run_{status}"] if run.is_finished else [])


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("trait", "status", "run_status"),
    [
        ("past_deadline", "pending", "suspended"),
        ("overdue", "pending", "suspended"),
        ("received", "received", "pending"),
        ("expired", "expired", "pending"),
        ("cancelled", "cancelled", "cancelled"),
    ],
)
def test_hooks_in_every_state(trait: str, status: str, run_status: str) -> None:
    hook = Hook.objects.get(pk=HookFactory(**{trait: True}).pk)
    assert (hook.status, hook.run.status) == (status, run_status)
    settled = Event.objects.filter(run=hook.run, type=f"hook_{status}").count()
    assert settled == (status != "pending")


@pytest.mark.django_db(transaction=True)
def test_a_run_made_here_goes_on_when_it_is_answered() -> None:
    hook = HookFactory()
    resume_hook(hook.token, "yes")
    hook.run.refresh_from_db()
    assert hook.run.result == {"title": "A story", "answer": "yes"}


@pytest.mark.django_db(transaction=True)
def test_a_run_made_here_goes_on_when_its_deadline_passed() -> None:
    hook = HookFactory(past_deadline=True)
    sweep()
    hook.run.refresh_from_db()
    assert hook.run.result == {"title": "A story", "answer": STEP_HOOK_TIMEOUT}


@pytest.mark.django_db
def test_an_answer_by_a_reviewer() -> None:
    dana = UserFactory(username="dana", reviewer=True)
    hook = HookFactory(received=True, answer={"approved": False}, by=dana, channel="admin")
    assert (hook.payload, hook.answered_by, hook.channel) == ({"approved": False}, dana, "admin")


@pytest.mark.django_db
def test_users_and_what_runs_are_about() -> None:
    assert UserFactory().check_password("password")
    assert not UserFactory(staff=True).has_perm("django_stephooks.view_hook")
    reviewer = UserFactory(reviewer=True)
    assert reviewer.is_staff
    assert reviewer.has_perms(["django_stephooks.view_hook", "django_stephooks.review_hook"])
    assert not reviewer.has_perm("django_stephooks.review_any_hook")
    assert UserFactory(superuser=True).has_perm("django_stephooks.review_any_hook")
    article = ArticleFactory()
    assert RunFactory(subject=article).subject == article
    assert len(CheckpointFactory(large=True).data["state"]) == 100_000
