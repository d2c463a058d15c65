"""What an interrupt asks of people, and how their answers look to the graph.

Known are the shapes of LangChain's human-in-the-loop middleware (both modes), of `ask_human` and
`approve`; any other value is shown as it is, and answered with plain JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pydantic
from langgraph.types import Interrupt

from django_stephooks.contrib.decisions import NO_ANSWER, NOT_DONE, Decision, Reply, decision_schema
from django_stephooks.contrib.digests import key_of
from django_stephooks.exceptions import HookTimeoutError
from django_stephooks.types import STEP_HOOK_TIMEOUT

from .tools import APPROVAL, QUESTION


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One answer wanted of one person. `key` stands for exactly this: what it is about included."""

    key: str
    title: str
    description: str = ""
    context: Any = None
    schema: Any = None
    expired: Any = None  # what the graph gets if nobody answers; an exception is raised
    to_graph: Callable[[Any], Any] = lambda answer: answer


@dataclass(frozen=True, kw_only=True)
class Asking:
    """An interrupt of a graph as what is asked of people. `is_checked`: the graph may refuse its answer."""

    id: str
    asks: Sequence[Ask]
    to_graph: Callable[[list[Any]], Any]
    is_checked: bool = False

    def answer(self, given: Sequence[Any]) -> Any:
        """What the graph gets for what was answered to `asks`."""
        answers = []
        for ask, answer in zip(self.asks, given, strict=True):
            if answer is not STEP_HOOK_TIMEOUT:
                answers.append(ask.to_graph(answer))
            elif isinstance(ask.expired, Exception):
                raise ask.expired
            else:
                answers.append(ask.expired)
        return self.to_graph(answers)


def asking(interrupt: Interrupt[Any], schemas: Sequence[Any] = ()) -> Asking:
    """What this interrupt asks. `schemas`: the pydantic models that the graph's own interrupts may want."""
    value = interrupt.value
    kind = value.get("type") if isinstance(value, dict) else None
    schema = interrupt.response_schema
    if kind == "tool_approval":
        asks = [_approval(interrupt, value, _allowed(schema), 0, label=value["tool_call_id"])]
    elif isinstance(value, dict) and "action_requests" in value and "review_configs" in value:
        requests = zip(value["action_requests"], value["review_configs"], strict=True)
        batch = [
            _approval(interrupt, action, config["allowed_decisions"], place)
            for place, (action, config) in enumerate(requests)
        ]
        return Asking(id=interrupt.id, asks=batch, to_graph=lambda decisions: {"decisions": decisions})
    elif kind == APPROVAL:
        ask = _approval(interrupt, value, value["allowed_decisions"], 0)
        bound = value["digest"]
        return Asking(
            id=interrupt.id, asks=[ask], to_graph=lambda given: {"digest": bound, "decision": given[0]}
        )
    elif kind == QUESTION:
        asks = [_question(interrupt, value)]
    else:
        asks = [_plain(interrupt, schemas)]
    return Asking(id=interrupt.id, asks=asks, to_graph=lambda given: given[0], is_checked=bool(schema))


def _approval(
    interrupt: Interrupt[Any], action: Any, allowed: Sequence[str], place: int, *, label: str = ""
) -> Ask:
    name, arguments = action["name"], action["args"]
    expired: Any = HookTimeoutError(f"Nobody decided on {name!r} in time, and to reject it is not allowed.")
    for decision in ("reject", "respond"):
        if decision in allowed:
            expired = {"type": decision, "message": NOT_DONE}
            break

    def to_graph(decision: Decision) -> dict[str, Any]:
        return decision.for_langchain(name)

    return Ask(
        key=key_of(label or interrupt.id, interrupt.id, place, name, arguments),
        title=f"Allow {name}?",
        description=action.get("description", ""),
        context={"tool": name, "arguments": arguments},
        schema=decision_schema(allowed),
        expired=expired,
        to_graph=to_graph,
    )


def _question(interrupt: Interrupt[Any], value: Any) -> Ask:
    return Ask(
        key=key_of(value["tool_call_id"], interrupt.id, value),
        title=value["question"],
        schema=Reply,
        expired=NO_ANSWER,
        to_graph=lambda reply: reply.answer,
    )


def _plain(interrupt: Interrupt[Any], schemas: Sequence[Any]) -> Ask:
    value, wanted = interrupt.value, interrupt.response_schema
    known = next(
        (schema for schema in schemas if wanted and pydantic.TypeAdapter(schema).json_schema() == wanted),
        None,
    )
    text = value if isinstance(value, str) else ""
    context = {} if text else {"asked": value}
    if wanted and not known:
        context["answer"] = wanted
    return Ask(
        key=key_of(interrupt.id, value),
        title=text or "An agent asks",
        context=context or None,
        schema=known,
        to_graph=lambda answer: answer.model_dump(mode="json") if known else answer,
    )


def _allowed(schema: Any) -> list[str]:
    """The decisions that a per-call interrupt's response schema lists."""
    if mapping := schema.get("discriminator", {}).get("mapping"):
        return [*mapping]
    return [schema["properties"]["type"]["const"]]
