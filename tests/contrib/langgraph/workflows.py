"""Workflows around agents, found by workers as those of any app."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool

from django_stephooks import emit, step, workflow
from django_stephooks.contrib.langgraph import ask_human, run_agent
from tests.acceptance.workflows import note, pass_gate

from .agents import GRAPHS, HELLO, SCRIPT, texts, words
from .scripted import ScriptedModel


@workflow
def at_the_top() -> Any:
    return run_agent(GRAPHS["plain"], {})


def agent_at(desk: str) -> Any:
    """The agent of the script, which notes what it does at this desk."""

    @tool
    def refund(order: int, amount: int) -> str:
        """Pay money back."""
        note(desk, f"refund {order} {amount}")
        return f"paid {amount}"

    model = ScriptedModel(script=SCRIPT, told=lambda number: note(desk, f"model {number}"))
    return create_agent(model, tools=[refund, ask_human])


@step(max_retries=0)
def support(desk: str) -> Any:
    def tell(chunk: Any, key: str) -> None:
        if said := words(chunk):
            emit(said, key=key)
        if said == "[They may.]" and not (Path(desk) / "go").exists():
            pass_gate(desk, "go")

    return texts(run_agent(agent_at(desk), HELLO, on_stream=tell))
