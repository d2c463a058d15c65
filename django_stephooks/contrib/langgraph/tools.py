"""What a graph's own code calls to ask a person: the `ask_human` tool, and `approve`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from langchain_core.tools import InjectedToolCallId, tool
from langgraph.types import interrupt

from django_stephooks.contrib.digests import digest

QUESTION, APPROVAL = "stephooks_question", "stephooks_approval"


@tool
def ask_human(question: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> str:
    """Ask a human colleague a question and get their answer. It may take them a while."""
    return str(interrupt({"type": QUESTION, "tool_call_id": tool_call_id, "question": question}))


def approve(
    action: str,
    arguments: dict[str, Any],
    *,
    description: str = "",
    allowed: Iterable[str] = ("approve", "reject"),
) -> dict[str, Any]:
    """Ask a person whether this may be done, in a node or a tool; call it right before doing it.

    Returns the decision: `{"type": "approve"}`, `{"type": "reject", "message": "…"}`, or another one of
    those allowed. An approval holds for these very arguments: when the graph comes here again with
    others (a price that has changed since), it asks again.
    """
    exactly = digest(action, arguments)
    while True:
        decided = interrupt(
            {
                "type": APPROVAL,
                "name": action,
                "args": arguments,
                "description": description,
                "allowed_decisions": [*allowed],
                "digest": exactly,
            }
        )
        if decided["digest"] == exactly:
            decision: dict[str, Any] = decided["decision"]
            return decision
