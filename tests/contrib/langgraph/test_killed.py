"""Killed at each commit: the agent goes on where it was, and whoever watches gets each chunk once."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import time
from collections import Counter
from typing import Any

import pytest

from django_stephooks import resume_hook
from django_stephooks.contrib.langgraph.watching import WatchedSaver
from django_stephooks.engine.worker import advance
from django_stephooks.exceptions import HookAlreadyReceivedError
from django_stephooks.models import Event, Hook, Run, StepCheckpoint
from django_stephooks.services.sweep import sweep
from django_stephooks.testing import chunks
from tests.engine.killing import Process
from tests.engine.watching import again

from .agents import atalk, atells, talk, tells
from .playing import answer, work

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_worker")]

process = Process()

GRAPH = "side effect beside a question"
SEEN = ["Let ", "me ", "see.", "[paid 30]", "[They may.]", "All ", "is ", "well."]


def play(step: Any, options: dict[str, Any], clock: Any, did: list[Any], kill_at: int | None) -> Run:
    """The whole conversation; killed once, at this commit point."""
    process.begin(kill_at)
    did.clear()
    run = step.start(GRAPH, **options)
    for _ in range(10):
        while alive(lambda: advance("default")) is None and Run.objects.filter(status="pending").exists():
            pass
        if again(run).is_finished:
            return run
        waiting = run.hooks.pending().first()
        if run.status == Run.Status.SUSPENDED and waiting:
            token = waiting.token
            alive(functools.partial(resume_hook, token, "They may."))
            # If that was killed, the page showed an error, and the button is pressed again.
            with contextlib.suppress(HookAlreadyReceivedError):
                resume_hook(token, "They may.")
            continue
        clock.advance("2h")
        sweep()
    raise AssertionError(f"It does not come to an end: {run.status}.")


def alive(action: Any) -> Any:
    with process.living():
        return action()
    return None


@pytest.mark.parametrize(
    ("step", "options"),
    [(talk, {}), (talk, {"telling": "counted"}), (atalk, {})],
    ids=["def, keyed", "def, counted", "async def"],
)
def test_killed_at_each_commit_the_talk_is_the_same(step, options, clock, did):
    usual = play(step, options, clock, did, None)
    assert (usual.status, sorted(chunks(usual))) == ("completed", sorted(SEEN))
    acts, points = Counter(did), len(process.points)
    assert acts == {"model 0": 1, "model 1": 1, "refund 7 30": 1}
    assert points > 10
    for number in range(1, points + 1):
        for model in (StepCheckpoint, Hook, Event, Run):
            model.objects.all().delete()
        run = play(step, options, clock, did, number)
        where = f"killed {process.points[number - 1]}, point {number} of {points}"
        assert run.status == Run.Status.COMPLETED, (where, run.error)
        assert run.result == usual.result, where
        assert not Counter(SEEN) - Counter(chunks(run)), where
        twice = sorted((Counter(chunks(run)) - Counter(SEEN)).elements())
        # Chunks by count: the end of a task beside the one that speaks may have counted what it said.
        assert twice == [] or (options, twice) == ({"telling": "counted"}, ["[paid 30]"]), where
        # Only what was not recorded when the kill came is done again: one thing, once.
        assert sum((Counter(did) - acts).values()) <= 1, (where, did)
        assert not acts - Counter(did), where
        assert Hook.objects.count() == 1, where


@pytest.mark.parametrize("step", [talk, atalk])
def test_killed_while_it_waits_and_right_after_it_was_resumed(step, clock, did):
    """Nothing was done in vain: no call of the model, no side effect, no chunk."""
    run = step.start(GRAPH)
    process.begin(None)
    alive(lambda: advance("default"))
    assert again(run).status == Run.Status.SUSPENDED
    # While it waits there is nothing of it in any process. Resumed, it is killed at its first commits.
    resume_hook(run.hooks.get().token, "They may.")
    for kill_at in (1, 2, 3):
        process.begin(kill_at)
        alive(lambda: advance("default"))
        assert len(process.points) == kill_at
        assert again(run).status in (Run.Status.PENDING, Run.Status.RUNNING)
        clock.advance("2h")
        sweep()
    process.begin(None)
    alive(lambda: advance("default"))
    assert again(run).status == Run.Status.COMPLETED
    assert sorted(did) == ["model 0", "model 1", "refund 7 30"]
    assert sorted(chunks(run)) == sorted(SEEN)


@pytest.mark.parametrize("step", [tells, atells], ids=["def", "async def"])
def test_node_that_speaks_and_then_asks_is_heard_once(step, did):
    """It runs again from its top when the answer is there, and says the same again."""
    run = work(step.start("speaks, then asks"))
    run = answer(run, "yes")
    assert run.result == {"said": "yes"}
    assert did == ["model 0"] * 3
    assert chunks(run) == ["Let ", "me ", "think."] * 2


@pytest.mark.parametrize("step", [talk, atalk], ids=["def", "async def"])
def test_what_a_task_did_is_stored_before_the_graph_goes_on(step, monkeypatch):
    """LangGraph tells of a task before its saver knows what the task wrote: that is waited for."""
    held = []
    release, put, aput = WatchedSaver.release, WatchedSaver.put_writes, WatchedSaver.aput_writes

    def seen(self: Any, task_id: str) -> None:
        held.append(self.holds(task_id))
        release(self, task_id)

    def late(self: Any, *args: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.05)
        put(self, *args)

    async def alate(self: Any, *args: Any) -> None:
        await asyncio.sleep(0.05)
        await aput(self, *args)

    monkeypatch.setattr(WatchedSaver, "release", seen)
    monkeypatch.setattr(WatchedSaver, "put_writes", late)
    monkeypatch.setattr(WatchedSaver, "aput_writes", alate)
    run = work(step.start(GRAPH))
    answer(run, "They may.")
    assert len(held) >= 5
    assert all(held)
