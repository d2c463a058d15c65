"""A watcher is told what happens: chunks, waiting for people, going on, and the end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from django_stephooks import cancel_run
from django_stephooks.models import Run
from django_stephooks.runtimes.base import get_runtime
from django_stephooks.services.streams import Watch
from tests.clock import Clock

from . import workflows
from .seeing import answered, got, started, turn

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("streams")]


def told(watch: Watch) -> list[Any]:
    """What it is told now, chunks by their text."""
    watch._look_at = 0  # as if a second had passed
    messages = [(message.event, json.loads(message.data)) for message in got(watch)]
    return [data["chunk"] if event == "chunk" else event for event, data in messages]


def test_a_run_from_its_beginning_to_its_end() -> None:
    workflows.says += [["a"], ["b"]]
    run = workflows.run_step.start("asks_with_a_checkpoint")
    watch = Watch(run)
    assert told(watch) == []

    turn(run)
    assert told(watch) == ["hello", "a", "waiting"]
    assert told(watch) == []

    answered(run)
    assert told(watch) == ["b", "end"]
    assert watch.over


def test_whom_a_run_waits_for_is_told_by_the_names_of_its_hooks_only() -> None:
    workflows.says.append(["a"])
    run = started("speaks_then_asks")

    waiting = got(Watch(run))[-1]

    assert (waiting.event, json.loads(waiting.data)) == ("waiting", {"hooks": ["go_on"]})
    assert waiting.cursor == ""


def test_a_run_that_was_answered_has_resumed() -> None:
    workflows.says.append(["a"])
    run = started("speaks_then_asks")
    watch = Watch(run)
    assert told(watch) == ["a", "waiting"]

    Run.objects.filter(pk=run.pk).update(status="running", turn=2, due_at=run.created_at)
    assert told(watch) == ["resumed"]
    # Who comes again after it went on is told too.
    assert told(Watch(run, watch.cursor)) == ["resumed"]


def test_a_run_that_waits_for_its_next_attempt_waits_for_nobody() -> None:
    workflows.says.append(["a", RuntimeError("broken")])

    assert told(Watch(started("speaks"))) == ["a"]


def test_who_comes_again_goes_on_from_the_last_id() -> None:
    workflows.says.append(["a", "b", "c"])
    run = started("speaks")
    messages = got(Watch(run))

    again = Watch(run, messages[0].cursor)

    assert told(again) == ["b", "c", "end"]
    assert not again.is_needless


def test_who_has_seen_the_end_need_not_come_again_unless_the_run_goes_on() -> None:
    workflows.says.append(["a", RuntimeError("broken")])
    run = started("speaks_then_asks")
    run.refresh_from_db()
    cancel_run(run)
    end = got(Watch(run))[-1]
    assert (end.event, json.loads(end.data)) == ("end", {"status": "cancelled"})

    assert Watch(run, end.cursor).is_needless
    assert told(Watch(run, end.cursor)) == ["end"]
    Run.objects.filter(pk=run.pk).update(status="pending", due_at=run.created_at, finished_at=None)
    assert not Watch(run, end.cursor).is_needless


@pytest.mark.parametrize(
    "junk", ["x", "1", "-", "1-", "1-2-3", "\u0661-\u0661", "1-1.fin", "9" * 40 + "-1", "1-1\nid: 5"]
)
def test_an_id_that_is_none_of_ours_begins_anew(junk: str) -> None:
    workflows.says.append(["a"])
    run = started("speaks")

    assert told(Watch(run, junk)) == ["a", "end"]


@pytest.mark.parametrize("far", ["0-9999999999999999999", "9999999999999999999-9999999999999999999"])
def test_an_id_that_is_beyond_everything_is_no_error(far: str) -> None:
    workflows.says.append(["a"])

    assert told(Watch(started("speaks"), far))[-1] == "end"


def test_an_id_of_another_stream_of_the_run_begins_anew_and_says_so() -> None:
    workflows.says.append(["a"])
    run = started("speaks")
    cursor = got(Watch(run))[0].cursor
    mark, _, number = cursor.partition("-")

    assert told(Watch(run, f"{int(mark) - 1}-{number}" if int(mark) else f"7-{number}")) == [
        *("restart", "a", "end")
    ]


def test_some_time_after_its_end_a_runs_chunks_are_shown_to_nobody(clock: Clock) -> None:
    workflows.says.append(["a"])
    run = started("speaks")
    assert told(Watch(run)) == ["a", "end"]

    clock.advance("61m")

    assert told(Watch(run)) == ["end"]


def test_a_run_that_was_pruned_meanwhile_has_ended() -> None:
    workflows.says.append(["a"])
    run = started("speaks_then_asks")
    watch = Watch(run)
    told(watch)

    Run.objects.filter(pk=run.pk).delete()

    assert told(watch) == ["end"]


def test_a_long_stream_comes_piece_by_piece_and_whole() -> None:
    workflows.says.append(list(range(1200)))
    run = started("speaks")
    watch = Watch(run)

    assert len(watch.look()) == 500
    assert told(watch) == [*range(500, 1200), "end"]


def test_the_first_chunk_ends_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    workflows.says.append(["a"])
    run = workflows.run_step.start("speaks")
    watch = Watch(run)
    stream = get_runtime().stream(run)
    assert stream.read("", wait=0.01) == []
    turn(run)

    assert [message.event for message in watch.look(wait=60)] == ["chunk"]
