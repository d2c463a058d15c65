"""Observers are there while turns and steps are worked on, and nothing of theirs gets in the way."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from django_stephooks import observers, resume_hook
from django_stephooks.engine.worker import advance
from django_stephooks.exceptions import RunLostError
from django_stephooks.models import Event, Hook, Run
from django_stephooks.observers import Observer, StepWork, TurnWork
from django_stephooks.services.runs import cancel_run, retry_run
from tests.factories import RunFactory

from . import workflows

pytestmark = pytest.mark.django_db(transaction=True)


class Watching(Observer):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    @contextlib.contextmanager
    def around_turn(self, turn: TurnWork) -> Iterator[None]:
        self.seen.append(f"turn {turn.run.turn} begins")
        try:
            yield
        finally:
            self.seen.append(f"turn {turn.run.turn} {turn.outcome}")

    @contextlib.contextmanager
    def around_step(self, step: StepWork) -> Iterator[None]:
        self.seen.append(f"{step.call} begins, attempt {step.attempt}")
        raised = ""
        try:
            yield
        except BaseException as error:
            raised = type(error).__name__
            raise
        finally:
            self.seen.append(f"{step.call} ends {raised}".strip())

    def carry(self) -> dict[str, Any]:
        return {"watched": True}


@contextlib.contextmanager
def observed_by(observer: Observer) -> Iterator[None]:
    observers.add(observer)
    try:
        yield
    finally:
        observers.remove(observer)


@pytest.fixture
def watching() -> Iterator[Watching]:
    observer = Watching()
    with observed_by(observer):
        yield observer


def data_of(run: Run) -> dict[str, Any]:
    return dict(run.events.values_list("type", "data"))


def test_it_is_around_each_turn_and_each_step_that_works(watching: Watching) -> None:
    run = workflows.asking.start()
    resume_hook(Hook.objects.get(run=run).token, "yes")
    assert watching.seen == [
        "turn 1 begins",
        "outer:1 begins, attempt 1",
        "outer:1/inner:1 begins, attempt 1",
        "outer:1/inner:1 ends",
        "outer:1 ends",
        "ask:1 begins, attempt 1",
        "ask:1 ends SuspensionSignal",
        "turn 1 suspended",
        "turn 2 begins",
        # The step outer is replayed: nothing is worked on there.
        "ask:1 begins, attempt 1",
        "ask:1 ends",
        "turn 2 completed",
    ]


def test_it_sees_attempts_and_how_each_ended(watching: Watching) -> None:
    workflows.obstacles[:] = [ValueError("a stone"), KeyError("a wall")]
    run = workflows.stumbling.start()
    assert watching.seen == [
        "turn 1 begins",
        "stumbles:1 begins, attempt 1",
        "stumbles:1 ends ValueError",
        "turn 1 ready",
        "turn 2 begins",
        "stumbles:1 begins, attempt 2",
        "stumbles:1 ends KeyError",
        "turn 2 failed",
    ]
    watching.seen.clear()
    retry_run(run)
    assert watching.seen[-1] == "turn 3 completed"


def test_it_is_around_async_steps_side_by_side(watching: Watching) -> None:
    run = workflows.side_by_side.start()
    for hook in Hook.objects.filter(run=run):
        resume_hook(hook.token, "yes")
    begun = [line for line in watching.seen if "begins" in line and "turn" not in line]
    ended = [line for line in watching.seen if "ends" in line]
    assert begun[:3] == [f"{call}:1 begins, attempt 1" for call in ("plain", "aask")] + [
        "aask:2 begins, attempt 1"
    ]
    assert ended[:3] == ["plain:1 ends", "aask:1 ends SuspensionSignal", "aask:2 ends SuspensionSignal"]
    assert len(begun) == len(ended)
    assert watching.seen[-1].endswith("completed")


def test_a_lost_turn_is_told_as_lost(watching: Watching, monkeypatch: pytest.MonkeyPatch) -> None:
    def loses(*args: Any, **kwargs: Any) -> None:
        raise RunLostError

    monkeypatch.setattr("django_stephooks.engine.store.complete", loses)
    workflows.stumbling.start()
    assert watching.seen[-1] == "turn 1 lost"


def test_a_turn_that_finds_no_workflow_is_seen_too(watching: Watching) -> None:
    RunFactory(workflow="not.deployed.yet")
    advance("default")
    assert watching.seen == ["turn 1 begins", "turn 1 suspended"]


def test_what_it_carries_is_in_the_journal(watching: Watching) -> None:
    run = workflows.asking.start()
    resume_hook(Hook.objects.get(run=run).token, "yes")
    carrying = {type for type, data in data_of(run).items() if "watched" in data}
    assert carrying == {"run_started", "run_suspended", "hook_received", "run_completed"}

    workflows.obstacles[:] = [ValueError("a stone"), ValueError("a wall")]
    failed = workflows.stumbling.start()
    retry_run(failed)
    carrying = {type for type, data in data_of(failed).items() if "watched" in data}
    assert carrying == {"run_started", "run_failed", "run_retried", "run_completed"}


def test_each_turn_says_how_long_it_took() -> None:
    run = workflows.asking.start()
    assert 0 < data_of(run)[Event.Type.RUN_SUSPENDED]["seconds"] < 60
    resume_hook(Hook.objects.get(run=run).token, "yes")
    assert 0 < data_of(run)[Event.Type.RUN_COMPLETED]["seconds"] < 60
    workflows.obstacles[:] = [ValueError("a stone"), ValueError("a wall")]
    assert 0 < data_of(workflows.stumbling.start())[Event.Type.RUN_FAILED]["seconds"] < 60


class Broken(Observer):
    """`breaks`: where it raises."""

    def __init__(self, breaks: str) -> None:
        self.breaks = breaks

    def around_turn(self, turn: TurnWork) -> Any:
        return self._manager()

    def around_step(self, step: StepWork) -> Any:
        return self._manager()

    def _manager(self) -> Any:
        if self.breaks == "when asked":
            raise LookupError("broken")
        return self._broken()

    @contextlib.contextmanager
    def _broken(self) -> Iterator[None]:
        if self.breaks == "entering":
            raise LookupError("broken")
        try:
            yield
        finally:
            if self.breaks == "leaving":
                raise LookupError("broken")

    def carry(self) -> dict[str, Any]:
        raise LookupError("broken")


@pytest.mark.parametrize("breaks", ["when asked", "entering", "leaving"])
def test_one_that_breaks_is_logged_and_stops_nobody(
    breaks: str, watching: Watching, caplog: pytest.LogCaptureFixture
) -> None:
    with observed_by(Broken(breaks)), caplog.at_level(logging.ERROR, "django_stephooks"):
        run = workflows.asking.start()
        resume_hook(Hook.objects.get(run=run).token, "yes")
    run.refresh_from_db()
    assert run.status == Run.Status.COMPLETED
    assert run.result == "yes"
    assert "LookupError: broken" in caplog.text
    assert [line for line in watching.seen if "turn" in line] == [
        *("turn 1 begins", "turn 1 suspended", "turn 2 begins", "turn 2 completed")
    ]


class Swallowing(Observer):
    @contextlib.contextmanager
    def around_step(self, step: StepWork) -> Iterator[None]:
        with contextlib.suppress(BaseException):
            yield


def test_one_that_swallows_changes_nothing() -> None:
    workflows.obstacles[:] = [ValueError("a stone"), ValueError("a wall")]
    with observed_by(Swallowing()):
        failed = workflows.stumbling.start()
        asked = workflows.asking.start()
    failed.refresh_from_db()
    asked.refresh_from_db()
    assert (failed.status, asked.status) == (Run.Status.FAILED, Run.Status.SUSPENDED)
    cancel_run(asked)


def test_without_one_nothing_is_made() -> None:
    run = Run()
    assert observers.around_turn(TurnWork(run)) is observers.around_step(run, "a:1", 1)
    assert observers.carried() == {}
