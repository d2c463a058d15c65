"""What may not be in the tables is refused by the database itself."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from django_stephooks.models import Hook, Run
from tests.factories import CheckpointFactory, HookFactory, RunFactory

pytestmark = pytest.mark.django_db


def refuses(model: type[Any], constraint: str, instance: Any, **values: Any) -> None:
    """The database refuses to change the row like this, because of that constraint."""
    with pytest.raises(IntegrityError) as refused, transaction.atomic():
        model.objects.filter(pk=instance.pk).update(**values)
    assert constraint in str(refused.value)


@pytest.mark.parametrize("status", ["pending", "running"])
def test_a_run_that_somebody_must_work_on_says_when(status: str) -> None:
    refuses(Run, "stephooks_run_due", RunFactory(), status=status, due_at=None)


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_run_that_is_over_waits_for_nothing(status: str) -> None:
    refuses(Run, "stephooks_run_due", RunFactory(), status=status)


def test_a_run_has_no_status_but_those_known() -> None:
    refuses(Run, "stephooks_run_due", RunFactory(), status="asleep")


@pytest.mark.parametrize("state", ["suspended", "sleeping"])
def test_a_suspended_run_waits_for_people_or_for_a_time(state: str) -> None:
    run = RunFactory(**{state: True})
    assert (run.due_at is None) == (state == "suspended")


def test_one_run_per_key_of_a_workflow() -> None:
    RunFactory(workflow="a", key="1")
    RunFactory(workflow="b", key="1")
    RunFactory(workflow="a", key=None)
    RunFactory(workflow="a", key=None)
    with pytest.raises(IntegrityError), transaction.atomic():
        RunFactory(workflow="a", key="1")


@pytest.mark.parametrize("status", ["received", "expired", "cancelled"])
def test_a_settled_hook_says_when(status: str) -> None:
    refuses(Hook, "stephooks_hook_settled", HookFactory(), status=status)


def test_a_pending_hook_is_not_settled() -> None:
    refuses(Hook, "stephooks_hook_settled", HookFactory(), settled_at=timezone.now())


def test_one_hook_per_call_of_a_run() -> None:
    hook = HookFactory()
    HookFactory(run=hook.run, call="review:1/approve:2")
    with pytest.raises(IntegrityError), transaction.atomic():
        HookFactory(run=hook.run)


def test_one_checkpoint_per_call_of_a_run() -> None:
    checkpoint = CheckpointFactory()
    CheckpointFactory(run=checkpoint.run, call="review:2")
    with pytest.raises(IntegrityError), transaction.atomic():
        CheckpointFactory(run=checkpoint.run)


@pytest.mark.parametrize("factory", [RunFactory, HookFactory])
def test_public_ids_are_unique(factory: Any) -> None:
    first = factory()
    with pytest.raises(IntegrityError), transaction.atomic():
        factory(public_id=first.public_id)
