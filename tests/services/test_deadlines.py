"""A deadline is a fact in the database: fixed once, and true for everybody at the same moment."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from django_stephooks import (
    STEP_HOOK_TIMEOUT,
    HookExpiredError,
    HookTimeoutError,
    SerializationError,
    codec,
    resume_hook,
    sleep,
    step,
    step_hook,
    workflow,
)
from django_stephooks.engine.worker import advance
from django_stephooks.models import Event, Hook, Run
from django_stephooks.services.sweep import sweep
from tests.app import workflows
from tests.clock import Clock

from .lookups import again, events_of, hook_of

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = timedelta(hours=1)


# --- when ------------------------------------------------------------------------------------------


def test_five_restarts_do_not_move_a_deadline(
    clock: Clock, killed: type[BaseException], monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.STEPHOOKS = {"RUNTIME": "inline", "MAX_RECOVERIES": 10}
    deadline = clock.now + HOUR

    def be_killed(token: str) -> None:
        raise killed

    monkeypatch.setattr(workflows, "tell", be_killed)
    with pytest.raises(killed):
        workflows.question.start("1h", "return")
    run = Run.objects.get()
    for _ in range(5):
        clock.advance("5m")
        with pytest.raises(killed):
            sweep()
        assert hook_of(run).expires_at == deadline
    assert again(run).turn == 6

    clock.now = deadline
    monkeypatch.setattr(workflows, "tell", lambda token: None)
    sweep()
    assert again(run).result is STEP_HOOK_TIMEOUT


def test_before_the_deadline_nothing_expires(clock: Clock) -> None:
    run = workflows.question.start("1h", "return")
    clock.now += HOUR - timedelta(microseconds=1)
    assert sweep().expired == 0
    assert again(run).status == Run.Status.SUSPENDED


def test_expired_is_expired_although_no_sweep_came_by(clock: Clock) -> None:
    run = workflows.question.start("1h", "return")
    hook = hook_of(run)
    clock.advance("1h")

    assert hook.is_past_deadline()
    assert not hook.is_waiting()
    assert not Hook.objects.waiting(clock.now).exists()
    with pytest.raises(HookExpiredError):
        resume_hook(hook.token, "late")
    # Whoever finds it out makes it so: the run went on with the timeout.
    assert again(run).result is STEP_HOOK_TIMEOUT
    assert sweep().expired == 0


def test_a_turn_that_comes_after_the_deadline_sees_it_itself(clock: Clock, no_worker: list[str]) -> None:
    run = workflows.question.start("1h", "return")
    advance("default")
    clock.advance("2h")
    Run.objects.filter(pk=run.pk).make_ready(clock.now)

    advance("default")

    assert again(run).result is STEP_HOOK_TIMEOUT
    assert events_of(run).count("hook_expired") == 1


def test_a_timeout_of_one_run_expires_one_question_of_one_run(clock: Clock) -> None:
    hour, two_hours, forever = (workflows.question.start(timeout, "return") for timeout in ("1h", "2h", None))
    clock.advance("1h")
    assert sweep().expired == 1
    assert [again(run).status for run in (hour, two_hours, forever)] == [
        "completed",
        "suspended",
        "suspended",
    ]
    assert Event.objects.filter(type=Event.Type.HOOK_EXPIRED).get().run == hour


def test_a_second_question_with_a_shorter_timeout_expires_at_its_own_time(clock: Clock) -> None:
    run = workflows.at_once.start("2h", "1h")
    long, short = Hook.objects.order_by("expires_at").reverse()

    clock.advance("1h")
    sweep()
    for hook in (long, short):
        hook.refresh_from_db()
    assert (long.status, short.status) == (Hook.Status.PENDING, Hook.Status.EXPIRED)
    assert again(run).status == Run.Status.SUSPENDED

    clock.advance("1h")
    sweep()
    assert again(run).result == [STEP_HOOK_TIMEOUT, STEP_HOOK_TIMEOUT]


def test_the_timeout_of_a_later_question_counts_from_when_it_is_asked(clock: Clock) -> None:
    run = workflows.one_after_the_other.start("2h", "1h")
    clock.advance("2h")
    sweep()
    assert hook_of(run).expires_at == clock.now + HOUR
    clock.advance("1h")
    sweep()
    assert again(run).result == [STEP_HOOK_TIMEOUT, STEP_HOOK_TIMEOUT]


def test_a_late_answer_does_not_turn_over_the_timeout(clock: Clock) -> None:
    run = workflows.one_after_the_other.start("1h", "9h")
    first = hook_of(run)
    clock.advance("1h")
    sweep()

    with pytest.raises(HookExpiredError):
        resume_hook(first.token, "late")
    resume_hook(hook_of(run).token, "in time")

    assert again(run).result == [STEP_HOOK_TIMEOUT, "in time"]
    first.refresh_from_db()
    assert (first.status, first.payload) == (Hook.Status.EXPIRED, None)


@pytest.mark.parametrize(
    "before", [datetime(2027, 3, 27, 15, 0, tzinfo=UTC), datetime(2026, 10, 24, 15, 0, tzinfo=UTC)]
)
def test_a_day_is_24_hours_also_when_the_clocks_change(clock: Clock, settings: Any, before: datetime) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    berlin = ZoneInfo("Europe/Berlin")
    local = before.astimezone(berlin)
    assert local.utcoffset() != (local + timedelta(days=1)).utcoffset()

    clock.now = before
    with timezone.override(berlin):
        run = workflows.question.start("24h", "return")
        clock.now = before + timedelta(hours=24, microseconds=-1)
        assert sweep().expired == 0
        clock.now = before + timedelta(hours=24)
        assert sweep().expired == 1
    assert again(run).result is STEP_HOOK_TIMEOUT


def test_a_naive_datetime_is_refused_with_a_sentence() -> None:
    naive = datetime(2026, 11, 30, 12, 0)  # noqa: DTZ001
    with pytest.raises(SerializationError) as refused:
        workflows.echo.start(naive)
    assert str(refused.value) == (
        "arguments.value: Naive datetimes are not stored; "
        "use an aware datetime (django.utils.timezone.now())."
    )


def test_a_site_without_time_zones_is_refused_with_a_sentence(settings: Any) -> None:
    settings.USE_TZ = False
    with pytest.raises(ImproperlyConfigured, match=r"USE_TZ is False: .* Set USE_TZ = True"):
        workflows.question.start("24h")
    settings.USE_TZ = True
    assert not Run.objects.exists()


# --- what then -------------------------------------------------------------------------------------


@workflow
def catches() -> str:
    try:
        workflows.ask("1h")
    except HookTimeoutError as error:
        return f"caught: {error}"
    return "answered"


def test_a_timeout_is_raised_at_the_call_and_can_be_caught(clock: Clock) -> None:
    run = catches.start()
    clock.advance("1h")
    sweep()
    assert again(run).result == (
        f"caught: Nobody answered hook 'approve' of run {run.pk} before 2026-11-30 13:00:00+00:00."
    )


def test_a_timeout_that_nobody_catches_fails_the_run_without_another_attempt(clock: Clock) -> None:
    run = workflows.question.start("1h")
    clock.advance("1h")
    sweep()
    assert again(run).status == Run.Status.FAILED
    assert run.error["type"] == "django_stephooks.exceptions:HookTimeoutError"
    assert "step_retrying" not in events_of(run)


def test_an_overdue_question_that_keeps_waiting_can_still_be_answered(clock: Clock) -> None:
    run = workflows.question.start("1h", "suspend")
    hook = hook_of(run)
    clock.advance("30d")

    assert sweep().expired == 0
    assert again(run).status == Run.Status.SUSPENDED
    assert hook.is_overdue()
    assert hook.is_waiting()
    assert Hook.objects.waiting(clock.now).get() == hook

    resume_hook(hook.token, "better late")
    assert again(run).result == "better late"


def test_a_timeout_has_the_system_as_its_actor_everywhere(clock: Clock) -> None:
    run = workflows.question.start("1h", "return")
    hook = hook_of(run)
    clock.advance("1h")
    sweep()
    hook.refresh_from_db()
    assert (hook.status, hook.payload, hook.answered_by) == (Hook.Status.EXPIRED, None, None)
    assert hook.answered_by_label == "system (deadline)"
    assert hook.settled_at == clock.now
    assert run.events.get(type=Event.Type.HOOK_EXPIRED).data == {"by": "system (deadline)"}


@workflow
def naps() -> str:
    sleep("1h")
    return "awake"


def test_a_sleep_is_fixed_once_and_ends_with_the_sweep(clock: Clock) -> None:
    run = naps.start()
    deadline = clock.now + HOUR
    assert again(run).due_at == deadline
    clock.advance("30m")
    Run.objects.filter(pk=run.pk).make_ready(clock.now)
    assert sweep().woken == 0
    sweep(now=clock.now + timedelta(minutes=1))  # a turn in between
    assert (again(run).turn, run.due_at) == (2, deadline)

    clock.now = deadline
    assert sweep().woken == 1
    assert again(run).result == "awake"


# --- the sentinel ----------------------------------------------------------------------------------


@step
def ask_and_hand_on() -> Any:
    return step_hook("approve", timeout="1h", on_timeout="return")


@workflow
def hands_on() -> list[Any]:
    first = ask_and_hand_on()
    sleep("1h")  # so that the step's result is read from its record
    return [first is STEP_HOOK_TIMEOUT, first]


def test_a_step_may_return_the_sentinel(clock: Clock) -> None:
    run = hands_on.start()
    for _ in range(2):
        clock.advance("1h")
        sweep()
    assert again(run).result[0] is True
    assert run.result[1] is STEP_HOOK_TIMEOUT


def test_the_sentinel_may_be_an_argument() -> None:
    run = again(workflows.echo.start({"first": STEP_HOOK_TIMEOUT}))
    assert run.result["first"] is STEP_HOOK_TIMEOUT


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_the_sentinel_is_itself_after_pickling(protocol: int) -> None:
    pickled = pickle.dumps([STEP_HOOK_TIMEOUT], protocol)
    assert pickle.loads(pickled)[0] is STEP_HOOK_TIMEOUT  # noqa: S301


def test_the_sentinel_is_itself_after_copying() -> None:
    assert copy.copy(STEP_HOOK_TIMEOUT) is STEP_HOOK_TIMEOUT
    assert copy.deepcopy({"a": [STEP_HOOK_TIMEOUT]})["a"][0] is STEP_HOOK_TIMEOUT
    assert type(STEP_HOOK_TIMEOUT)() is STEP_HOOK_TIMEOUT


def test_the_sentinel_is_itself_in_another_process() -> None:
    program = (
        "import pickle, sys\n"
        "from django_stephooks import STEP_HOOK_TIMEOUT, codec\n"
        f"assert pickle.loads({pickle.dumps(STEP_HOOK_TIMEOUT)!r}) is STEP_HOOK_TIMEOUT\n"
        f"assert codec.loads({codec.dumps(STEP_HOOK_TIMEOUT)!r}) is STEP_HOOK_TIMEOUT\n"
        "sys.stdout.write(codec.dumps(STEP_HOOK_TIMEOUT))\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert codec.loads(said.stdout) is STEP_HOOK_TIMEOUT


def test_an_answer_that_looks_like_the_sentinel_is_an_answer() -> None:
    run = workflows.question.start("1h", "return")
    resume_hook(hook_of(run).token, {"$t": "timeout"})
    assert again(run).result == {"$t": "timeout"}
