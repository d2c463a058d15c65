"""A LangGraph agent in a step asks people, and nothing it did is done twice."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from langgraph.types import Command

from django_stephooks import resume_hook
from django_stephooks.contrib.langgraph.conversation import Conversation
from django_stephooks.models import Run, StepCheckpoint
from tests.engine.watching import events_of, later

from .agents import aconverse, arun_graph, converse, run_graph
from .playing import answer, open_hooks, work

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_worker")]

both = pytest.mark.parametrize("converse", [converse, aconverse], ids=["def", "async def"])
both_graphs = pytest.mark.parametrize("run_graph", [run_graph, arun_graph], ids=["def", "async def"])

THE_TALK = ["Where is my money?", "Let me see.", "paid 30", "They may.", "All is well."]


@both
def test_side_effect_beside_a_question_happens_once(converse, did):
    run = work(converse.start("side effect beside a question"))
    assert run.status == Run.Status.SUSPENDED
    assert [*open_hooks(run)] == ["May they keep it?"]
    assert sorted(did) == ["model 0", "refund 7 30"]
    run = answer(run, "They may.")
    assert run.result == THE_TALK
    assert sorted(did) == ["model 0", "model 1", "refund 7 30"]


@pytest.mark.parametrize(
    ("converse", "graph"), [(converse, "errors ignored"), (aconverse, "errors ignored, async")], ids=str
)
def test_middleware_that_ignores_errors_changes_nothing(converse, graph, did, caplog):
    run = work(converse.start(graph))
    assert [*open_hooks(run)] == ["May they keep it?"]
    assert sorted(did) == ["model 0", "refund 7 30"]
    assert "caught its interrupt" in caplog.text
    run = answer(run, "They may.")
    assert run.result == THE_TALK
    assert sorted(did) == ["model 0", "model 1", "refund 7 30"]


@both
@pytest.mark.parametrize("order", [*itertools.permutations(["First?", "Second?", "Third?"])], ids="".join)
def test_answers_come_in_any_order(converse, order, did):
    run = work(converse.start("two questions"))
    assert [*open_hooks(run)] == ["First?", "Second?", "Third?"]
    for title in order:
        assert run.status == Run.Status.SUSPENDED
        run = answer(run, f"To {title}", title)
    assert run.result[2:] == ["To First?", "To Second?", "To Third?", "Thanks."]
    assert did == ["model 0", "model 1"]


def test_run_waits_once_for_all_open_questions():
    run = work(converse.start("two questions"))
    assert events_of(run).count("run_suspended") == 1
    for hook in open_hooks(run).values():
        resume_hook(hook.token, "Yes.")
    assert work(run).status == Run.Status.COMPLETED
    assert events_of(run).count("run_suspended") == 1


@both
def test_two_consecutive_questions(converse, did):
    run = work(converse.start("one after the other"))
    run = answer(run, "one", "First?")
    run = answer(run, "two", "Second?")
    assert run.result[1:] == ["", "one", "", "two", "Thanks."]
    assert did == ["model 0", "model 1", "model 2"]


@both
def test_ten_rounds_of_one_question_with_one_tool_call_id(converse, did):
    """Models number their calls anew in each message: an answer belongs to its round."""
    run = work(converse.start("ten rounds"))
    sizes = []
    for number in range(10):
        sizes.append(len(str(StepCheckpoint.objects.get(run=run).data)))
        run = answer(run, f"answer {number}")
    assert run.result[2::2] == [*(f"answer {number}" for number in range(10))]
    assert did == [f"model {number}" for number in range(11)]
    # What is stored grows with what was said, and keeps nothing of how it came about.
    assert sizes[-1] < 5 * sizes[0]


@both_graphs
@pytest.mark.parametrize("payload", [None, "", 0, False, [], {}, "text", {"a": [1]}], ids=repr)
def test_plain_interrupt_gets_the_payload_as_it_is(run_graph, payload):
    run = work(run_graph.start("plain"))
    assert [*open_hooks(run)] == ["What is it?"]
    assert answer(run, payload).result == {"said": payload}


@both_graphs
def test_two_interrupts_of_one_node(run_graph):
    run = work(run_graph.start("twice in a node"))
    run = answer(run, 1, "First?")
    assert answer(run, 2, "Second?").result == {"said": [1, 2]}


@both_graphs
def test_answer_that_the_graph_refuses_reopens_the_question(run_graph):
    run = work(run_graph.start("size"))
    run = answer(run, {"size": "huge"})
    assert run.status == Run.Status.SUSPENDED
    (hook,) = open_hooks(run).values()
    assert "The last answer was refused" in hook.description
    assert "valid integer" in hook.description
    run = answer(run, {"size": "enormous"})
    assert answer(run, {"size": 42}).result == {"said": 42}


@both_graphs
def test_known_schema_refuses_a_wrong_answer_when_it_is_offered(run_graph):
    from django_stephooks import InvalidPayloadError

    run = work(run_graph.start("size", with_schema=True))
    (hook,) = open_hooks(run).values()
    with pytest.raises(InvalidPayloadError):
        resume_hook(hook.token, {"size": "huge"})
    assert answer(run, {"size": 42}).result == {"said": 42}


@both_graphs
def test_graph_with_a_checkpointer_of_its_own_is_refused(run_graph):
    run = work(run_graph.start("with a checkpointer"))
    assert run.status == Run.Status.FAILED
    assert "without a checkpointer of its own" in run.error["message"]


@both
def test_nobody_answers_and_the_agent_is_told(converse, clock, did):
    run = work(converse.start("side effect beside a question", {"timeout": "1h"}))
    run = work(later(clock, "2h", run))
    assert run.result[3:] == ["Nobody answered in time.", "All is well."]


@both
def test_nobody_answers_and_the_step_is_told(converse, clock):
    run = work(converse.start("side effect beside a question", {"timeout": "1h", "on_timeout": "raise"}))
    run = work(later(clock, "2h", run))
    assert (run.status, run.error["type"]) == ("failed", "django_stephooks.exceptions:HookTimeoutError")


@both_graphs
def test_nobody_answers_a_plain_interrupt(run_graph, clock):
    run = work(run_graph.start("plain", {"timeout": "1h"}))
    assert work(later(clock, "2h", run)).result == {"said": None}


def test_in_a_workflows_own_code_it_is_refused():
    from .workflows import at_the_top

    run = work(at_the_top.start())
    assert "Call it in a step" in run.error["message"]


@both_graphs
@pytest.mark.parametrize("strict", [True, False])
def test_answer_that_the_graph_does_not_take_is_an_error_and_not_silence(run_graph, strict, monkeypatch):
    def command(self: Any, askings: Any, given: Any) -> Any:
        self.sent = askings
        self.config["configurable"]["__pregel_strict_resume"] = strict
        return Command(resume={"0" * 32: given[0]})

    monkeypatch.setattr(Conversation, "command", command)
    run = answer(work(run_graph.start("plain")), "it")
    assert run.status == Run.Status.FAILED
    assert ("Unknown" if strict else "did not take the answer") in run.error["message"]
