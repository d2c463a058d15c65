"""Pruning keeps nobody waiting, and takes nothing that somebody is at work on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection, transaction
from django.utils import timezone

from django_stephooks import resume_hook, retry_run
from django_stephooks.engine.worker import work
from django_stephooks.models import Hook, Run
from django_stephooks.services.prune import prune
from django_stephooks.services.sweep import sweep

from . import workflows
from .conftest import suspended
from .crew import PATIENCE, Crew
from .workflows import Gate

pytestmark = pytest.mark.usefixtures("rows_can_be_skipped")


def test_answers_starts_turns_and_sweeps_go_on_while_a_batch_is_deleted(crew: Callable[[int], Crew]) -> None:
    # Beside each other in every index.
    for _ in range(3):
        workflows.count_once.start(1)
    work("default")
    waiting, overdue = suspended(workflows.ask_one.start), suspended(workflows.ask_one.start, 3600)
    for _ in range(3):
        workflows.count_once.start(1)
    work("default")
    Hook.objects.filter(pk=overdue.pk).update(expires_at=timezone.now())
    gate = Gate()

    def prune_and_hold() -> int:
        with transaction.atomic():
            count = prune(timezone.now())
            gate()
            return count

    pruning = crew(1).begin(prune_and_hold)
    gate.wait()
    try:
        resume_hook(waiting.token, "yes")
        assert sweep().expired == 1
        workflows.count_once.start(2)
        assert work("default") == 3
    finally:
        gate.open()
    assert pruning.result(PATIENCE) == 6
    assert Run.objects.filter(status=Run.Status.COMPLETED).count() == 3


def test_finished_run_that_somebody_holds_is_passed_by(crew: Callable[[int], Crew]) -> None:
    if connection.vendor == "mysql":
        pytest.skip("InnoDB locks the gaps beside what it deletes: this waits for whoever writes there.")
    run, *others = [workflows.count_once.start(number) for number in range(10)]
    work("default")
    Run.objects.filter(pk=run.pk).update(status=Run.Status.FAILED)
    gate = Gate()

    def retry_and_hold() -> None:
        with transaction.atomic():
            retry_run(run)
            gate()

    retrying = crew(1).begin(retry_and_hold)
    gate.wait()
    try:
        assert prune(timezone.now(), batch=3) == len(others)
    finally:
        gate.open()
    retrying.result(PATIENCE)
    assert list(Run.objects.values_list("pk", "status")) == [(run.pk, Run.Status.PENDING)]
