"""LangGraph agents that ask people (extra `langgraph`); import what you need from here.

`run_agent` runs a graph in a step: where the graph interrupts, the run waits without a worker.
`run_transcript` does the same for a chat model and its tools, without a graph. Both, awaitable, are
in `django_stephooks.contrib.langgraph.aio`.
"""

from __future__ import annotations

from django_stephooks.contrib.decisions import Decision, Reply

from .agent import run_agent
from .saver import StepSaver
from .tools import approve, ask_human
from .transcript import run_transcript

__all__ = [
    "Decision",
    "Reply",
    "StepSaver",
    "approve",
    "ask_human",
    "run_agent",
    "run_transcript",
]
