"""Failing steps: tried again by their policy, never because they waited; and retried runs."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any

import pytest

from django_stephooks import (
    FatalError,
    HookTimeoutError,
    RetryableError,
    cancel_run,
    retry_run,
    step,
    step_hook,
    workflow,
)
from django_stephooks.engine.failures import describe, rebuild
from django_stephooks.engine.worker import advance
from django_stephooks.exceptions import RunStateError, StepFailedError
from django_stephooks.models import Event, Hook, Run

from .watching import again, answer, calls_of, data_of, did, events_of, later

pytestmark = pytest.mark.django_db(transaction=True)


class CardDeclined(Exception):
    def __init__(self, code: int, *, secret: object = None) -> None:
        super().__init__(code, "declined")
        self.secret = secret


def always_fails(name: str, error: Any = None) -> None:
    did.append(name)
    raise error or ValueError(f"{name} failed")


def waits_of(run: Run, clock: Any, limit: int = 20) -> list[float]:
    """The seconds between the attempts of a run that never succeeds."""
    waits = []
    while again(run).status == Run.Status.SUSPENDED and len(waits) < limit:
        wait = run.due_at - clock.now
        waits.append(wait.total_seconds())
        later(clock, wait, run)
    return waits


@step(max_retries=2, retry_delay="30s")
def two_retries() -> None:
    always_fails("two_retries")


@step(max_retries=0)
def no_retries() -> None:
    always_fails("no_retries")


@step(max_retries=4, retry_delay=[1, 5, 30])
def listed_delays() -> None:
    always_fails("listed_delays")


@step(max_retries=14)
def exponential() -> None:
    always_fails("exponential")


@step
def by_default() -> None:
    always_fails("by_default")


@step(max_retries=3, retry_delay=0)
def at_once() -> None:
    always_fails("at_once")


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        (two_retries, [30, 30]),
        (no_retries, []),
        (listed_delays, [1, 5, 30, 30]),
        (exponential, [2**n for n in range(12)] + [3600, 3600]),
        (by_default, [1, 2, 4]),
    ],
)
def test_attempts_are_made_by_the_policy_and_then_the_step_has_failed(definition, expected, clock):
    run = definition.start()
    assert waits_of(run, clock) == expected
    assert again(run).status == Run.Status.FAILED
    assert run.error["message"] == f"{definition.call_name} failed"
    assert len(did) == len(expected) + 1
    assert [data["attempt"] for data in data_of(run, Event.Type.STEP_RETRYING)] == [
        n + 1 for n in range(len(expected))
    ]
    assert [data["attempt"] for data in data_of(run, Event.Type.STEP_FAILED)] == [len(expected) + 1]


def test_without_a_delay_attempts_need_no_sweep_and_each_has_a_turn_of_its_own():
    run = again(at_once.start())
    assert run.status == Run.Status.FAILED
    assert did == ["at_once"] * 4
    assert run.turn == 4


@step
def list_of_one() -> list[str]:
    return ["recorded"]


@step(max_retries=2, retry_delay=0)
def changes_what_it_got() -> list[str]:
    got = list_of_one()
    got.append("changed")
    did.append("changes_what_it_got")
    if len(did) < 3:
        raise ValueError("once more")
    return got


def test_what_an_attempt_did_to_a_recorded_result_is_gone_in_the_next_attempt():
    run = again(changes_what_it_got.start())
    assert run.result == ["recorded", "changed"]


@step(max_retries=5, retry_delay="1h")
def asks_to_be_tried_again(retry_after: Any) -> None:
    always_fails("asked", RetryableError("busy", retry_after=retry_after))


@pytest.mark.parametrize(
    ("retry_after", "wait"),
    [("20s", 20), (90, 90), (timedelta(minutes=2), 120), (None, 3600), ("nonsense", 3600)],
)
def test_the_error_may_say_when_to_try_again(retry_after, wait, clock):
    run = asks_to_be_tried_again.start(retry_after)
    waits = waits_of(run, clock)
    assert waits == [wait] * 5, "an attempt counts whoever chose its delay"
    assert again(run).error["message"] == "busy"


def test_retry_after_zero_means_at_once():
    run = again(asks_to_be_tried_again.start(0))
    assert run.status == Run.Status.FAILED
    assert did == ["asked"] * 6


@step(max_retries=5)
def fails_for_good() -> None:
    always_fails("for good", FatalError("no such account"))


@step(max_retries=5)
def returns_what_can_not_be_stored() -> Any:
    did.append("worked")
    return object()


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        (fails_for_good, "no such account"),
        (returns_what_can_not_be_stored, "result"),
    ],
)
def test_some_failures_are_not_tried_again(definition, message):
    run = again(definition.start())
    assert run.status == Run.Status.FAILED
    assert message in run.error["message"]
    assert len(did) == 1


@step(max_retries=3, retry_delay="1m")
def waits_after_a_failure() -> Any:
    did.append("attempt")
    if did.count("attempt") == 1:
        raise ValueError("at first")
    return [step_hook("approve", timeout="1h"), always_fails("after the answer")]


def test_waiting_uses_no_retry_and_keeps_the_count(clock):
    """Fail once, wait, go on, fail: the failure after the answer is the second one, not the first."""
    run = later(clock, "1m", waits_after_a_failure.start())
    assert run.status == Run.Status.SUSPENDED
    answer(run)
    assert waits_of(run, clock) == [60, 60]
    assert [data["attempt"] for data in data_of(run, Event.Type.STEP_RETRYING)] == [1, 2, 3]
    assert run.status == Run.Status.FAILED
    assert Hook.objects.filter(run=run).count() == 1


def test_fail_once_then_wait_then_time_out(clock):
    run = later(clock, "1m", waits_after_a_failure.start())
    later(clock, "1h", run)
    assert run.status == Run.Status.FAILED
    assert run.error["type"] == "django_stephooks.exceptions:HookTimeoutError"
    assert calls_of(run, Event.Type.STEP_RETRYING) == ["waits_after_a_failure:1"]
    assert did.count("attempt") == 3


@workflow
def retries_side_by_side_with_an_inner_step() -> Any:
    return outer_with_retries()


@step(max_retries=1, retry_delay=0)
def outer_with_retries() -> str:
    did.append("outer")
    inner_fine()
    if did.count("outer") == 1:
        inner_without_retries()
    return "done"


@step
def inner_fine() -> None:
    did.append("fine")


@step(max_retries=0)
def inner_without_retries() -> None:
    always_fails("inner")


def test_a_new_attempt_keeps_the_inner_steps_that_completed():
    run = again(retries_side_by_side_with_an_inner_step.start())
    assert run.result == "done"
    assert did == ["outer", "fine", "inner", "outer"]


# --- the exception, when it is raised again ------------------------------------------------------


@step(max_retries=0)
def charge() -> None:
    always_fails("charge", CardDeclined(7))


@workflow
def catches_it_in_every_turn() -> Any:
    try:
        charge()
    except CardDeclined as error:
        args = list(error.args)
    return [step_hook("what now"), args]


def test_a_replayed_failure_is_of_the_same_class_with_the_same_arguments():
    run = catches_it_in_every_turn.start()
    answer(run, "give up")
    assert run.result == ["give up", [7, "declined"]]
    assert did == ["charge"]


class Broken(Exception):
    def __str__(self) -> str:
        raise RuntimeError("even this")


@pytest.mark.parametrize(
    "error",
    [
        CardDeclined(7, secret=object()),
        KeyError("missing"),
        FileNotFoundError(2, "No such file", "x.txt"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        RetryableError("busy", retry_after="1m"),
        HookTimeoutError("late"),
        StopIteration(3),
    ],
)
def test_exceptions_are_rebuilt_by_class_and_arguments(error):
    rebuilt = rebuild(describe(error))
    assert type(rebuilt) is type(error)
    assert rebuilt.args == error.args


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ExceptionGroup("several", [ValueError("x")]), "ExceptionGroup: several (1 sub-exception)"),
        (
            type("Local", (Exception,), {"__module__": "nowhere.to.be.found"})("x"),
            "Local: x",
        ),
    ],
)
def test_an_exception_that_can_not_be_rebuilt_is_told_by_its_name(error, message):
    rebuilt = rebuild(describe(error))
    assert type(rebuilt) is StepFailedError
    assert str(rebuilt) == message


def test_arguments_that_can_not_be_stored_become_the_message():
    assert rebuild(describe(ValueError(object))).args == (str(object),)
    assert "without a readable message" in describe(Broken(object()))["message"]


@pytest.mark.parametrize("named", ["os:system", "builtins:int", "builtins:SystemExit", "x:y", ":"])
def test_only_exceptions_are_ever_rebuilt(named):
    rebuilt = rebuild({"type": named, "message": "m", "args": ("true",), "traceback": ""})
    assert type(rebuilt) is StepFailedError


# --- retrying a run --------------------------------------------------------------------------------


@step(max_retries=1, retry_delay="1m")
def fails_until_mended(name: str) -> str:
    did.append(name)
    if "mended" not in did:
        raise ValueError(name)
    return f"{name} fine"


@step
def fine(name: str) -> str:
    did.append(name)
    return name


@workflow
def dealt_with_one_failure_and_not_with_the_next() -> Any:
    try:
        no_retries()
    except ValueError:
        instead = fine("instead")
    return [instead, step_hook("go on"), fails_until_mended("at last")]


def test_a_retried_run_does_again_what_failed_it_and_nothing_else(clock):
    run = dealt_with_one_failure_and_not_with_the_next.start()
    answer(run)
    later(clock, "1m", run)
    assert run.status == Run.Status.FAILED
    assert did == ["no_retries", "instead", "at last", "at last"]

    did.append("mended")
    retry_run(run, by="ops")

    assert again(run).result == ["instead", "yes", "at last fine"]
    assert did == ["no_retries", "instead", "at last", "at last", "mended", "at last"]


@workflow
def raises_by_itself() -> Any:
    with contextlib.suppress(ValueError):
        no_retries()
    step_hook("go on")
    if "mended" not in did:
        raise LookupError("a bug of the workflow's own")
    return "fine"


def test_a_failure_that_was_dealt_with_stays_when_the_workflow_itself_failed():
    run = raises_by_itself.start()
    answer(run)
    assert run.status == Run.Status.FAILED
    did.append("mended")
    retry_run(run)
    assert again(run).result == "fine"
    assert did.count("no_retries") == 1


def test_a_retried_run_counts_attempts_anew(clock):
    run = later(clock, "1m", fails_until_mended.start("x"))
    assert run.status == Run.Status.FAILED
    retry_run(run)
    assert again(run).status == Run.Status.SUSPENDED
    later(clock, "1m", run)
    assert run.status == Run.Status.FAILED
    assert did == ["x"] * 4


@step(max_retries=0)
def outer_that_wraps() -> str:
    try:
        return inner_until_mended()
    except ValueError as error:
        raise LookupError("wrapped") from error


@step(max_retries=0)
def inner_until_mended() -> str:
    did.append("inner")
    if "mended" not in did:
        raise ValueError("inner")
    return "mended"


@workflow
def wraps_once_more() -> str:
    try:
        return outer_that_wraps()
    except LookupError:
        raise RuntimeError("wrapped again")  # noqa: B904


def test_the_failure_is_found_through_what_it_was_wrapped_in():
    run = again(wraps_once_more.start())
    assert run.error["message"] == "wrapped again"
    did.append("mended")
    retry_run(run)
    assert again(run).result == "mended"


@workflow
def gives_up_without_saying_why() -> str:
    try:
        return outer_that_wraps()
    except LookupError:
        pass
    raise RuntimeError("gave up")


def test_the_failure_right_before_the_end_is_made_good_too():
    run = again(gives_up_without_saying_why.start())
    assert run.error["message"] == "gave up"
    did.append("mended")
    retry_run(run)
    assert again(run).result == "mended"


@pytest.mark.parametrize("reach", [lambda run: None, cancel_run])
def test_only_a_failed_run_can_be_retried(reach):
    run = catches_it_in_every_turn.start()
    reach(run)
    with pytest.raises(RunStateError, match="only a failed run can be retried"):
        retry_run(run)


@workflow
def asked_and_failed() -> Any:
    first = step_hook("first")
    if "mended" not in did:
        raise ValueError("later")
    return [first, step_hook("second")]


def test_a_retried_run_keeps_the_answers_that_were_given():
    run = asked_and_failed.start()
    answer(run, "first answer")
    assert run.status == Run.Status.FAILED
    did.append("mended")
    retry_run(run)
    answer(run, "second answer")
    assert run.result == ["first answer", "second answer"]
    assert calls_of(run, Event.Type.HOOK_CREATED) == ["first:1", "second:1"]


def test_a_retry_that_is_due_is_made_by_one_worker_once(clock, no_worker):
    run = two_retries.start()
    advance("default")
    later(clock, "30s", run)
    assert advance("default") == run
    assert advance("default") is None
    assert did == ["two_retries"] * 2
    assert events_of(run).count("run_resumed") == 1
