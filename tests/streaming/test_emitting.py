"""A replayed step does not emit again what the visitor already got."""

from __future__ import annotations

from typing import Any

import pytest

from django_stephooks import emit, emitted
from django_stephooks.exceptions import SerializationError
from django_stephooks.models import Run
from django_stephooks.runtimes.base import get_runtime
from django_stephooks.services.sweep import sweep
from django_stephooks.testing import chunks
from tests.clock import Clock

from . import workflows
from .seeing import answered, entries, sent, started, turn

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("streams")]

BROKEN = RuntimeError("broken")


def tried_again(run: Run, clock: Clock) -> Run:
    clock.advance("2s")
    sweep()
    return turn(run)


def test_chunks_arrive_in_order_with_their_call_and_number() -> None:
    workflows.says.append([{"token": "a"}, None, [1, "é\u2028\x00"]])

    run = started("speaks")

    assert run.status == "completed"
    assert entries(run) == [
        ("chunk", {"call": "speaks:1", "n": 0, "chunk": {"token": "a"}}),
        ("chunk", {"call": "speaks:1", "n": 1, "chunk": None}),
        ("chunk", {"call": "speaks:1", "n": 2, "chunk": [1, "é\u2028\x00"]}),
    ]


def test_a_step_that_runs_again_after_an_answer_sends_only_what_is_new() -> None:
    workflows.says.append(["a", "b"])
    run = started("speaks_then_asks")
    assert run.status == "suspended"

    run = answered(run)

    assert run.result == "yes"
    assert sent(run) == ["a", "b"]


def test_what_a_crashed_turn_emitted_is_not_sent_again(clock: Clock) -> None:
    workflows.says += [["a", "b", workflows.during], ["a", "b", "c"]]
    workflows.during.append(_worker_is_killed)
    run = workflows.run_step.start("speaks")
    with pytest.raises(SystemExit):
        turn(run)

    # As if it had been killed: its lease ends.
    Run.objects.filter(pk=run.pk).update(status="running", due_at=clock())
    sweep()
    run = turn(run)

    assert run.status == "completed"
    assert sent(run) == ["a", "b", "c"]


def _worker_is_killed() -> None:
    raise SystemExit


def test_an_attempt_that_says_something_else_goes_back_to_there_first(clock: Clock) -> None:
    workflows.says += [["The", "cat", "sat", BROKEN], ["The", "dog", "ran", "off"]]
    run = tried_again(started("speaks"), clock)

    assert run.status == "completed"
    assert entries(run)[3] == ("rewind", {"call": "speaks:1", "n": 1})
    assert sent(run) == ["The", "cat", "sat", "dog", "ran", "off"]
    assert chunks(run) == ["The", "dog", "ran", "off"]


def test_what_a_shorter_attempt_did_not_say_is_taken_back_when_it_completes(clock: Clock) -> None:
    workflows.says += [["a", "b", "c", BROKEN], ["a"]]

    run = tried_again(started("speaks"), clock)

    assert sent(run) == ["a", "b", "c"]
    assert chunks(run) == ["a"]


def test_going_back_twice_forgets_what_was_taken_back(clock: Clock) -> None:
    workflows.says += [["a", "b", BROKEN], ["x", BROKEN], ["x", "b", "c"]]
    run = workflows.speaks.start()
    run.refresh_from_db()
    workflows.speaks.retries, before = type(workflows.speaks.retries).parse(2, "1s"), workflows.speaks.retries
    try:
        run = tried_again(tried_again(turn(run), clock), clock)
    finally:
        workflows.speaks.retries = before

    assert run.status == "completed"
    assert chunks(run) == ["x", "b", "c"]


def test_a_chunk_with_a_key_is_sent_once_whatever_it_is_the_next_time(clock: Clock) -> None:
    workflows.says += [["a", "b", BROKEN], ["x", "b", "c"]]

    run = tried_again(started("speaks_with_keys"), clock)

    assert sent(run) == ["a", "b", "c"]
    assert entries(run)[0] == ("chunk", {"call": "speaks_with_keys:1", "key": "word0", "chunk": "a"})


def test_a_key_is_its_step_calls_own() -> None:
    run = turn(workflows.speaks_side_by_side.start())

    assert sorted(sent(run)) == ["a0", "a1", "a2", "b0", "b1", "b2"]
    # Keyed chunks need no counting.
    assert workflows.noted == [0, 0]


def test_the_count_goes_on_from_the_checkpoint_that_was_loaded() -> None:
    workflows.says += [["a", "b"], ["c", "d"]]
    run = started("asks_with_a_checkpoint")
    assert workflows.noted == [3]

    run = answered(run)

    assert workflows.noted == [3, 3]
    assert run.result == 5
    assert chunks(run) == sent(run) == ["hello", "a", "b", "c", "d"]


def test_a_recorded_once_counts_what_its_function_emitted() -> None:
    workflows.says += [["a", "b"], ["c"]]

    run = answered(started("says_once"))

    assert workflows.noted == [2, 2]
    assert run.result == 3
    assert chunks(run) == sent(run) == ["a", "b", "c"]


def test_a_recorded_step_inside_another_keeps_what_it_said() -> None:
    workflows.says.append(["inner"])

    run = answered(started("says_in_a_nested_step"))

    assert sent(run) == ["outer", "inner", "outer again"]
    assert chunks(run, call="says_in_a_nested_step:1/speaks:1") == ["inner"]


def test_a_workflow_can_emit_too() -> None:
    run = answered(turn(workflows.speaks_itself.start()))

    assert sent(run) == ["from the workflow", "and on"]


def test_nothing_is_emitted_behind_a_suspension_that_was_swallowed() -> None:
    run = started("swallows")

    assert run.status == "suspended"
    assert workflows.noted == ["swallowed"]
    assert sent(run) == []


@pytest.mark.parametrize("chunk", [{1: 2}, {"at": object()}, float("nan"), "x" * (16 * 1024)])
def test_what_is_not_json_or_too_big_fails_the_step_and_says_so(chunk: Any) -> None:
    workflows.says.append([chunk])
    run = started("speaks")

    assert run.status == "failed"
    assert run.error["type"].endswith("SerializationError")
    assert run.error["message"].startswith("chunk")
    with pytest.raises(SerializationError, match=r"^chunk"):
        emit(chunk)


def test_outside_a_run_nobody_sees_it_and_nothing_fails() -> None:
    workflows.says.append(["a"])

    workflows.speaks()

    assert emitted() == 0


def test_a_turn_that_lost_its_run_adds_nothing() -> None:
    workflows.says.append(["a", workflows.during, "b"])
    run = workflows.run_step.start("speaks")

    def another_worker_takes_it() -> None:
        Run.objects.filter(pk=run.pk).update(turn=2)
        get_runtime().stream(run).begin(2)

    workflows.during.append(another_worker_takes_it)
    turn(run)

    assert sent(run) == ["a"]


def test_only_the_last_chunks_are_kept(settings: Any) -> None:
    settings.STEPHOOKS = {**settings.STEPHOOKS, "STREAM_LENGTH": 100}
    workflows.says.append(list(range(450)))
    run = started("speaks_then_asks")

    kept = chunks(run)
    assert kept[-1] == 449
    assert 100 <= len(kept) <= 300

    # What is not there any more is not taken for new.
    run = answered(run)
    assert run.status == "completed"
    assert sent(run)[-1] == 449
    assert chunks(run) == kept


def test_an_answer_that_comes_from_another_process_is_streamed_on(streams: str) -> None:
    """A turn in a process that knows nothing of the earlier one goes on where that one was."""
    workflows.says.append(["a"])
    run = started("asks_with_a_checkpoint")
    first = get_runtime().stream(run).read("")

    run = answered(run)

    later = get_runtime().stream(run).read(first[-1].cursor)
    assert [entry.kind for entry in later if entry.kind != "turn"] == ["chunk"]
    assert {entry.mark for entry in later} == {first[0].mark}
