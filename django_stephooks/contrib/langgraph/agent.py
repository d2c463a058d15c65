"""`run_agent`: a graph runs in a step, and where it interrupts the run waits without a worker."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig

from django_stephooks.contrib.within import call_within
from django_stephooks.primitives import load_step_checkpoint, save_step_checkpoint, wait_all

from .conversation import Conversation
from .watching import InterruptSwallowed

A_MOMENT = 0.0005


def run_agent(
    graph: Any,
    input: Any,
    *,
    name: str = "agent",
    timeout: Any = None,
    on_timeout: str = "return",
    on_created: Callable[[str], Any] | None = None,
    on_stream: Callable[[Any, str], Any] | None = None,
    stream_mode: str | Sequence[str] = "messages",
    config: RunnableConfig | None = None,
    context: Any = None,
    schemas: Sequence[Any] = (),
    reviewers: Iterable[Any] = (),
) -> Any:
    """Run a compiled graph in a step until it is done, asking people where it interrupts; returns its output.

    The graph has no checkpointer of its own: after each thing that one of its tasks has done, its state
    is stored, and a run that goes on later, or elsewhere after a crash, goes on from there. Each interrupt
    is a question (a hook called `name`); the run waits once for all that are open.

    `timeout`, `on_created`, `reviewers`: as for `step_hook`, for each question.
    `on_timeout`: "return" tells the graph: a tool call is rejected, `ask_human` returns that nobody
    answered, any other interrupt returns None. "raise" raises HookTimeoutError, "suspend" goes on waiting.
    `on_stream(chunk, key)` gets what `graph.stream(…, stream_mode=stream_mode)` yields; a chunk that
    comes again after a crash has the same key, for `emit(…, key=key)`.
    `config`, `context`: for the graph. `schemas`: the pydantic models that its own interrupts give as
    `response_schema`, so that people get their fields.
    """
    with call_within(name, "run_agent") as within:
        conversation = Conversation(
            graph,
            within,
            load_step_checkpoint(),
            name=name,
            config=config,
            schemas=schemas,
            asking_options={
                "timeout": timeout,
                "on_timeout": on_timeout,
                "on_created": on_created,
                "reviewers": reviewers,
            },
            stream_mode=stream_mode,
        )
        if not conversation.has_begun:
            _stream(conversation, input, context, on_stream)
        while True:
            state = conversation.graph.get_state(conversation.config)
            conversation.check_taken(state.interrupts)
            if not state.tasks:
                return conversation.result(state)
            command = None
            if state.interrupts:
                askings = conversation.askings(state)
                questions = conversation.questions(askings)
                _save(conversation)
                answers = wait_all(*questions)
                command = conversation.command(askings, answers)
            _stream(conversation, command, context, on_stream)


def _stream(conversation: Conversation, command: Any, context: Any, on_stream: Any) -> None:
    """Let the graph work until it is done or asks; store what came of each of its tasks."""
    try:
        stream = conversation.graph.stream(**conversation.stream_options(command, context))
        with contextlib.closing(stream):
            for mode, chunk in stream:
                while conversation.is_early(mode, chunk):
                    time.sleep(A_MOMENT)  # LangGraph's thread that brings it is on its way
                for told, key in conversation.chunks(mode, chunk):
                    if on_stream is not None:
                        on_stream(told, key)
                if mode == "tasks":
                    _save(conversation)
    except InterruptSwallowed:
        conversation.warn_swallowed()
    except Exception as error:
        if not conversation.refuse(error):
            raise
    finally:
        conversation.saver.release_all()
        _save(conversation)


def _save(conversation: Conversation) -> None:
    if (unsaved := conversation.unsaved()) is not None:
        save_step_checkpoint(unsaved)
