"""`run_transcript`: the same without a graph; what is stored is the transcript."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage, messages_from_dict

from django_stephooks import step
from django_stephooks.contrib.langgraph import aio, ask_human, run_transcript
from django_stephooks.engine.worker import advance
from django_stephooks.models import Event, Hook, Run, StepCheckpoint
from django_stephooks.services.sweep import sweep
from django_stephooks.testing import chunks
from tests.engine.killing import Process
from tests.engine.watching import again, later

from .agents import HELLO, ask, atell_once, model_spoke, pay, refund, tell_once
from .playing import answer, open_hooks, work
from .scripted import ScriptedModel, calls

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_worker")]

SCRIPTS = {
    "aside": [calls(ask("May they?", "c1"), pay(7, 30, "c2"), text="Let me see."), AIMessage("All is well.")],
    "gated": [calls(pay(7, 30, "c1"), pay(8, 40, "c2")), calls(pay(8, 9, "c2")), AIMessage("Done.")],
    "rounds": [*(calls(ask("Again?", "c1")) for _ in range(10)), AIMessage("Thanks.")],
    "unknown": [calls(("fly", {}, "c1"))],
}


def model(script: str) -> Any:
    return ScriptedModel(script=SCRIPTS[script], told=model_spoke)


def options(script: str) -> dict[str, Any]:
    return {"tools": [refund], "asks": [ask_human], "approve": [refund] if script == "gated" else []}


def telling(tell: Any) -> Any:
    return lambda chunk, key: tell((chunk, {}), key)


@step(max_retries=0)
def talk(script: str, more: Any = None) -> Any:
    said = run_transcript(
        model(script), HELLO["messages"], **options(script), on_stream=telling(tell_once), **(more or {})
    )
    return [str(message.text) for message in said[1:]]


@step(max_retries=0)
async def atalk(script: str, more: Any = None) -> Any:
    said = await aio.run_transcript(
        model(script), HELLO["messages"], **options(script), on_stream=telling(atell_once), **(more or {})
    )
    return [str(message.text) for message in said[1:]]


@step(max_retries=0)
def talk_in_one(script: str) -> Any:
    return len(run_transcript(model(script), HELLO["messages"], **options(script)))


@step(max_retries=0)
async def atalk_in_one(script: str) -> Any:
    return len(await aio.run_transcript(model(script), HELLO["messages"], **options(script)))


both = pytest.mark.parametrize("talk", [talk, atalk], ids=["def", "async def"])


@both
def test_tools_run_first_and_every_call_is_answered(talk, did):
    run = work(talk.start("aside"))
    assert did == ["model 0", "refund 7 30"]
    stored = StepCheckpoint.objects.get(run=run).data
    assert stored["pending"] == ["c1"]
    _, said, done = messages_from_dict(stored["messages"])
    assert isinstance(said, AIMessage)
    assert isinstance(done, ToolMessage)
    assert done.tool_call_id == "c2"
    run = answer(run, "They may.")
    assert run.result == ["Let me see.", "paid 30", "They may.", "All is well."]
    assert did == ["model 0", "refund 7 30", "model 1"]
    assert chunks(run) == ["Let ", "me ", "see.", "All ", "is ", "well."]


@both
def test_rejected_call_is_not_made_and_changed_arguments_ask_again(talk, did):
    run = work(talk.start("gated"))
    first, second = run.hooks.pending().order_by("pk")
    assert [hook.context["arguments"]["amount"] for hook in (first, second)] == [30, 40]
    from django_stephooks import resume_hook

    resume_hook(second.token, {"approved": False, "message": "Too much."})
    resume_hook(first.token, {"approved": True})
    run = work(run)
    assert did == ["model 0", "refund 7 30", "model 1"]
    (hook,) = open_hooks(run).values()
    assert hook.context["arguments"]["amount"] == 9
    run = answer(run, {"approved": False})
    assert did == ["model 0", "refund 7 30", "model 1", "model 2"]
    assert "rejected" in run.result[4]


@both
def test_ten_rounds_with_one_tool_call_id(talk, did):
    run = work(talk.start("rounds"))
    for number in range(10):
        run = answer(run, f"answer {number}")
    assert run.result[1::2] == [*(f"answer {number}" for number in range(10))]
    assert did == [f"model {number}" for number in range(11)]


@both
def test_rounds_are_limited(talk):
    run = work(talk.start("rounds", {"max_rounds": 2}))
    run = answer(answer(run, "yes"), "yes")
    assert "does not come to an end" in run.error["message"]


@both
def test_nobody_answers(talk, clock, did):
    run = work(talk.start("aside", {"timeout": "1h"}))
    assert work(later(clock, "2h", run)).result[2] == "Nobody answered in time."
    run = work(talk.start("gated", {"timeout": "1h"}))
    run = work(later(clock, "2h", run))
    run = work(later(clock, "2h", run))
    assert run.result[1] == "Nobody decided in time, so it was not done."
    assert sum(what.startswith("refund") for what in did) == 1


@both
def test_tool_that_was_not_given_is_an_error(talk):
    run = work(talk.start("unknown"))
    assert "'fly', which is none of the tools" in run.error["message"]


@pytest.mark.parametrize("talk", [talk_in_one, atalk_in_one], ids=["def", "async def"])
def test_nobody_need_watch(talk, did):
    run = work(talk.start("aside"))
    assert answer(run, "They may.").result == 5
    assert did == ["model 0", "refund 7 30", "model 1"]


@both
def test_killed_at_each_commit_the_talk_is_the_same(talk, clock, did):
    process = Process()

    def alive(action: Any) -> None:
        with process.living():
            action()

    def play(kill_at: int | None) -> Run:
        process.begin(kill_at)
        did.clear()
        run = talk.start("aside")
        for _ in range(10):
            alive(lambda: advance("default"))
            if again(run).is_finished:
                return run
            for hook in run.hooks.pending():
                from django_stephooks import resume_hook

                resume_hook(hook.token, "They may.")
            clock.advance("2h")
            sweep()
        raise AssertionError(run.status)

    usual = play(None)
    acts, points = Counter(did), len(process.points)
    assert points > 10
    for number in range(1, points + 1):
        for stored in (StepCheckpoint, Hook, Event, Run):
            stored.objects.all().delete()
        run = play(number)
        where = f"killed {process.points[number - 1]}, point {number} of {points}"
        assert (run.status, run.result) == ("completed", usual.result), (where, run.error)
        assert sum((Counter(did) - acts).values()) <= 1, (where, did)
        assert chunks(run) == ["Let ", "me ", "see.", "All ", "is ", "well."], where
