"""`stephooks_sweep`: one pass, or passes for ever that a broken database does not end."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import InterfaceError, OperationalError

from django_stephooks.management.commands import stephooks_sweep as command
from django_stephooks.models import Sweep
from django_stephooks.services.sweep import SweepResult

from .conftest import until

NOTHING = SweepResult(expired=0, woken=0, recovered=0, failed=0, rung=0)
SOMETHING = SweepResult(expired=3, woken=0, recovered=0, failed=0, rung=1)


class Passes:
    """Stands in for the sweep and for sleeping: gives each outcome once, then stops the loop."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.pauses: list[float] = []
        self.tidied = 0
        # When something is due next, sweep after sweep; else nothing is.
        self.due: list[float] = []

    def sweep(self) -> SweepResult:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, type):
            raise outcome("gone away")
        return outcome  # type: ignore[no-any-return]

    def seconds_until_due(self, *, longest: float) -> float:
        return min(longest, self.due.pop(0) if self.due else longest)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if not self.outcomes:
            signal.raise_signal(signal.SIGTERM)

    def tidy(self) -> None:
        self.tidied += 1


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def start(passes: Passes, *arguments: str) -> str:
        monkeypatch.setattr(command, "sweep", passes.sweep)
        monkeypatch.setattr(command, "seconds_until_due", passes.seconds_until_due)
        monkeypatch.setattr(command.time, "sleep", passes.sleep)
        monkeypatch.setattr(command, "close_old_connections", passes.tidy)
        out = StringIO()
        call_command("stephooks_sweep", *arguments, stdout=out, stderr=StringIO())
        return out.getvalue()

    handler = signal.getsignal(signal.SIGTERM)
    yield start
    assert signal.getsignal(signal.SIGTERM) is handler


def test_one_pass_prints_what_it_did(run: Any) -> None:
    passes = Passes(SOMETHING)
    assert run(passes) == f"{SOMETHING}\n"
    assert passes.pauses == []


@pytest.mark.django_db(transaction=True)
def test_one_real_pass_over_nothing() -> None:
    out = StringIO()
    call_command("stephooks_sweep", stdout=out)
    assert out.getvalue().strip() == str(NOTHING)


def test_error_of_one_pass_is_the_commands(run: Any) -> None:
    with pytest.raises(OperationalError):
        run(Passes(OperationalError))


def test_loop_goes_on_until_sigterm_and_prints_only_what_happened(run: Any) -> None:
    passes = Passes(NOTHING, SOMETHING, NOTHING)
    assert run(passes, "--loop") == f"{SOMETHING}\n"
    assert passes.pauses == [5, 5, 5]
    assert passes.tidied == 3


def test_loop_sweeps_as_often_as_it_is_told(run: Any) -> None:
    passes = Passes(NOTHING, NOTHING)
    run(passes, "--loop", "--interval", "0.5")
    assert passes.pauses == [0.5, 0.5]


def test_loop_is_there_when_the_next_deadline_passes(run: Any) -> None:
    passes = Passes(NOTHING, NOTHING, NOTHING, NOTHING)
    # The third is due still: somebody holds it.
    passes.due = [3.5, 60, 0]
    run(passes, "--loop")
    assert passes.pauses == [3.5, 5, command.SHORTEST_PAUSE, 5]


def test_loop_waits_longer_and_longer_for_a_broken_database(
    run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    broken = [OperationalError, InterfaceError] * 4
    passes = Passes(*broken, NOTHING, OperationalError)
    run(passes, "--loop")
    assert passes.pauses == [10, 20, 40, 60, 60, 60, 60, 60, 5, 10]
    assert passes.tidied == 10
    assert "gone away" in caplog.text


def test_bug_ends_the_loop(run: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        run(Passes(NOTHING, ZeroDivisionError), "--loop")


def test_nonsense_interval_is_refused(run: Any) -> None:
    with pytest.raises(CommandError, match="--interval"):
        run(Passes(), "--loop", "--interval", "soon")


def test_loop_in_a_process_of_its_own_needs_no_redis_and_ends_cleanly(
    child_environment: dict[str, str],
) -> None:
    Sweep.objects.all().delete()
    child = subprocess.Popen(
        [sys.executable, "manage.py", "stephooks_sweep", "--loop", "--interval", "0.05"],
        cwd=Path(__file__).parents[2],
        env={**child_environment, "STEPHOOKS_TEST_REDIS_SOCKET": "/nowhere/redis.sock"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: child.poll() is not None or Sweep.objects.exists())
        child.send_signal(signal.SIGTERM)
        _, said = child.communicate(timeout=30)
    finally:
        child.kill()
    assert child.returncode == 0, said
    assert said == "Stopped.\n"
