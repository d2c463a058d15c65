"""A pydantic-ai agent in a step asks people for approvals and answers, and goes on where it was."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai import Agent, CallDeferred, DeferredToolRequests
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from django_stephooks import resume_hook, step, step_hook
from django_stephooks.contrib.pydantic_ai import arun_agent, run_agent
from django_stephooks.models import Run
from tests.contrib.langgraph.playing import answer, open_hooks, work
from tests.engine.conftest import did, no_worker
from tests.engine.watching import later

__all__ = ["did", "no_worker"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_worker")]

noted: list[Any] = []

SCRIPT = [
    ModelResponse(
        parts=[
            ToolCallPart("refund", {"amount": 30}, tool_call_id="c1"),
            ToolCallPart("look", {}, tool_call_id="c2"),
            ToolCallPart("ask_human", {"question": "May they keep it?"}, tool_call_id="c3"),
        ]
    ),
    # The same id, and another amount.
    ModelResponse(parts=[ToolCallPart("refund", {"amount": 5}, tool_call_id="c1")]),
    ModelResponse(parts=[TextPart("All is well.")]),
]


def scripted(messages: list[Any], info: Any) -> ModelResponse:
    number = sum(isinstance(message, ModelResponse) for message in messages)
    noted.append(f"model {number}")
    return SCRIPT[number]


agent: Agent[None, Any] = Agent(FunctionModel(scripted), output_type=[str, DeferredToolRequests])


@agent.tool_plain(requires_approval=True)
def refund(amount: int) -> str:
    noted.append(f"refund {amount}")
    return f"paid {amount}"


@agent.tool_plain
def look() -> str:
    noted.append("look")
    return "nothing"


@agent.tool_plain
def ask_human(question: str) -> str:
    raise CallDeferred


@pytest.fixture(autouse=True)
def nothing_noted():
    noted.clear()


@step(max_retries=0)
def talk(options: Any = None) -> Any:
    return [run_agent(agent, "Where is my money?", **(options or {})), step_hook("confirm")]


@step(max_retries=0)
async def atalk(options: Any = None) -> Any:
    from django_stephooks import aio

    return [
        await arun_agent(agent, "Where is my money?", **(options or {})),
        await aio.step_hook("confirm"),
    ]


both = pytest.mark.parametrize("talk", [talk, atalk], ids=["def", "async def"])


@both
def test_approvals_and_answers_are_waited_for_together(talk):
    run = work(talk.start())
    assert run.status == Run.Status.SUSPENDED
    hooks = open_hooks(run)
    assert {*hooks} == {"Allow refund?", "May they keep it?"}
    assert sorted(noted) == ["look", "model 0"]
    resume_hook(hooks["May they keep it?"].token, "They may.")
    run = answer(run, {"approved": False, "message": "Too much."}, "Allow refund?")
    assert sorted(noted) == ["look", "model 0", "model 1"]
    (hook,) = open_hooks(run).values()
    assert hook.context == {"tool": "refund", "arguments": {"amount": 5}}
    run = answer(run, {"approved": True})
    # The step waits for something else now; what the agent said is stored.
    run = answer(run, "yes")
    assert run.result == ["All is well.", "yes"]
    assert sorted(noted) == ["look", "model 0", "model 1", "model 2", "refund 5"]


@both
def test_nobody_answers(talk, clock):
    run = work(talk.start({"timeout": "1h"}))
    run = work(later(clock, "2h", run))
    run = work(later(clock, "2h", run))
    assert answer(run, "yes").result == ["All is well.", "yes"]
    assert sorted(noted) == ["look", "model 0", "model 1", "model 2"]
