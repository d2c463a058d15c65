"""pydantic-ai agents that ask people (extra `pydantic-ai`).

An agent with `DeferredToolRequests` among its output types ends its run where tools need approval
(`requires_approval=True`) or are answered elsewhere (`CallDeferred`). Here each of these is a question
to a person; the step waits without a worker, and the agent goes on with what was answered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from asgiref.sync import async_to_sync
from pydantic_ai import DeferredToolRequests, DeferredToolResults, ModelMessagesTypeAdapter, ToolDenied
from pydantic_ai.messages import ToolCallPart

from django_stephooks import aio
from django_stephooks.primitives import load_step_checkpoint, save_step_checkpoint, wait_all
from django_stephooks.questions import Question, question
from django_stephooks.types import STEP_HOOK_TIMEOUT

from .decisions import NO_ANSWER, NOT_DONE, Reply, decision_schema
from .digests import key_of
from .within import Within, call_within

DECIDES = ("approve", "reject")


def run_agent(
    agent: Any,
    prompt: Any,
    *,
    name: str = "agent",
    timeout: Any = None,
    on_timeout: str = "return",
    on_created: Callable[[str], Any] | None = None,
    reviewers: Iterable[Any] = (),
    **options: Any,
) -> Any:
    """Run a pydantic-ai agent in a step, asking people where it defers tool calls; returns its output.

    What was said is stored where the agent asks and when it is done, so what it does between two
    questions is done again if the process is killed there: a tool with a side effect is one to approve.
    `timeout`, `on_created`, `reviewers`: as for `step_hook`; with `on_timeout="return"` the agent is
    told that nobody answered. Other options are for `agent.run`. The output must be storable.
    """
    with call_within(name, "run_agent") as within:
        talk = Talk(within, load_step_checkpoint(), name, timeout, on_timeout, on_created, reviewers)
        while not talk.is_over:
            if talk.requests is not None:
                talk.answered(wait_all(*talk.questions()))
            # Not `run_sync`, which leaves an event loop behind in the worker's thread.
            run = async_to_sync(agent.run)
            save_step_checkpoint(talk.add(run(*talk.prompt(prompt), **talk.history, **options)))
        return talk.output


async def arun_agent(
    agent: Any,
    prompt: Any,
    *,
    name: str = "agent",
    timeout: Any = None,
    on_timeout: str = "return",
    on_created: Callable[[str], Any] | None = None,
    reviewers: Iterable[Any] = (),
    **options: Any,
) -> Any:
    """`run_agent` for async code; `on_created` may be `async def` too."""
    with call_within(name, "arun_agent") as within:
        stored = await aio.load_step_checkpoint()
        talk = Talk(within, stored, name, timeout, on_timeout, on_created, reviewers)
        while not talk.is_over:
            if talk.requests is not None:
                talk.answered(await aio.wait_all(*talk.questions()))
            result = await agent.run(*talk.prompt(prompt), **talk.history, **options)
            await aio.save_step_checkpoint(talk.add(result))
        return talk.output


class Talk:
    """What was said so far. `requests`: what is asked now; `read`: keys of answers that it contains."""

    def __init__(self, within: Within, stored: Any, name: str, *asking_options: Any) -> None:
        self.stored = stored or {"messages": [], "calls": [], "approvals": [], "read": [], "over": False}
        within.have_been_read(name, self.stored["read"])
        self.name = name
        self.asking_options = dict(
            zip(("timeout", "on_timeout", "on_created", "reviewers"), asking_options, strict=True)
        )
        self.results: DeferredToolResults | None = None

    @property
    def is_over(self) -> bool:
        return bool(self.stored["over"])

    @property
    def output(self) -> Any:
        return self.stored["output"]

    @property
    def requests(self) -> list[tuple[str, dict[str, Any]]] | None:
        asked = [(kind, call) for kind in ("calls", "approvals") for call in self.stored[kind]]
        return asked or None

    @property
    def history(self) -> dict[str, Any]:
        if not self.stored["messages"]:
            return {}
        messages = ModelMessagesTypeAdapter.validate_python(self.stored["messages"])
        return {"message_history": messages, "deferred_tool_results": self.results}

    def prompt(self, prompt: Any) -> list[Any]:
        return [] if self.stored["messages"] else [prompt]

    def add(self, result: Any) -> dict[str, Any]:
        """Note what a run of the agent came to; returns what is to be stored."""
        asked = result.output if isinstance(result.output, DeferredToolRequests) else None
        self.stored = {
            "messages": json.loads(result.all_messages_json()),
            "calls": [_plain(call) for call in asked.calls] if asked else [],
            "approvals": [_plain(call) for call in asked.approvals] if asked else [],
            "read": self.stored["read"],
            "over": asked is None,
            "output": None if asked else result.output,
        }
        return self.stored

    def _key(self, call: dict[str, Any]) -> str:
        return key_of(call["id"], len(self.stored["messages"]), call["name"], call["args"])

    def questions(self) -> list[Question]:
        return [self._question(kind, call) for kind, call in self.requests or ()]

    def _question(self, kind: str, call: dict[str, Any]) -> Question:
        is_approval = kind == "approvals"
        text = f"Allow {call['name']}?" if is_approval else str(call["args"].get("question") or call["name"])
        return question(
            self.name,
            key=self._key(call),
            title=text[:500],
            context={"tool": call["name"], "arguments": call["args"]} if call["args"] else None,
            payload_schema=decision_schema(DECIDES) if is_approval else Reply,
            **self.asking_options,
        )

    def answered(self, answers: list[Any]) -> None:
        self.results = DeferredToolResults()
        for (kind, call), answer in zip(self.requests or (), answers, strict=True):
            self.stored["read"] = [*self.stored["read"], self._key(call)]
            if kind == "calls":
                self.results.calls[call["id"]] = NO_ANSWER if answer is STEP_HOOK_TIMEOUT else answer.answer
            elif answer is STEP_HOOK_TIMEOUT:
                self.results.approvals[call["id"]] = ToolDenied(NOT_DONE)
            elif answer.type == "approve":
                self.results.approvals[call["id"]] = True
            else:
                self.results.approvals[call["id"]] = ToolDenied(answer.message or "A person has rejected it.")


def _plain(call: ToolCallPart) -> dict[str, Any]:
    return {"id": call.tool_call_id, "name": call.tool_name, "args": call.args_as_dict()}
