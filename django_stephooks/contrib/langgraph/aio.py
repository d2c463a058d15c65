"""`run_agent` and `run_transcript`, awaitable, for `async def` steps."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from django_stephooks.aio import load_step_checkpoint, save_step_checkpoint, wait_all
from django_stephooks.contrib.within import call_within

from .conversation import Conversation
from .transcript import Transcript
from .watching import InterruptSwallowed


async def run_agent(
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
    """`run_agent` for async code; `on_created` and `on_stream` may be `async def` too."""
    with call_within(name, "run_agent") as within:
        conversation = Conversation(
            graph,
            within,
            await load_step_checkpoint(),
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
            await _stream(conversation, input, context, on_stream)
        while True:
            state = await conversation.graph.aget_state(conversation.config)
            conversation.check_taken(state.interrupts)
            if not state.tasks:
                return conversation.result(state)
            command = None
            if state.interrupts:
                askings = conversation.askings(state)
                questions = conversation.questions(askings)
                await _save(conversation)
                answers = await wait_all(*questions)
                command = conversation.command(askings, answers)
            await _stream(conversation, command, context, on_stream)


async def _stream(conversation: Conversation, command: Any, context: Any, on_stream: Any) -> None:
    try:
        stream = conversation.graph.astream(**conversation.stream_options(command, context))
        async with contextlib.aclosing(stream):
            async for mode, chunk in stream:
                while conversation.is_early(mode, chunk):
                    await asyncio.sleep(0)
                for told, key in conversation.chunks(mode, chunk):
                    await _tell(on_stream, told, key)
                if mode == "tasks":
                    await _save(conversation)
    except InterruptSwallowed:
        conversation.warn_swallowed()
    except Exception as error:
        if not conversation.refuse(error):
            raise
    finally:
        conversation.saver.release_all()
        await _save(conversation)


async def _save(conversation: Conversation) -> None:
    if (unsaved := conversation.unsaved()) is not None:
        await save_step_checkpoint(unsaved)


async def run_transcript(
    model: Any,
    messages: Any,
    *,
    tools: Sequence[Any] = (),
    asks: Iterable[Any] = ("ask_human",),
    approve: Iterable[Any] = (),
    name: str = "agent",
    timeout: Any = None,
    on_timeout: str = "return",
    on_created: Callable[[str], Any] | None = None,
    on_stream: Callable[[Any, str], Any] | None = None,
    reviewers: Iterable[Any] = (),
    max_rounds: int = 50,
) -> list[BaseMessage]:
    """`run_transcript` for async code; `on_created` and `on_stream` may be `async def` too."""
    with call_within(name, "run_transcript") as within:
        options = {
            "timeout": timeout,
            "on_timeout": on_timeout,
            "on_created": on_created,
            "reviewers": reviewers,
        }
        talk = Transcript(within, await load_step_checkpoint(), messages, tools, asks, approve, name, options)
        while not talk.is_over:
            if talk.is_the_models_turn:
                talk.check_rounds(max_rounds)
                if on_stream is None:
                    said = await model.ainvoke(talk.messages)
                else:
                    said, number = None, 0
                    async for chunk in model.astream(talk.messages):
                        await _tell(on_stream, chunk, talk.chunk_key(number))
                        said, number = chunk if said is None else said + chunk, number + 1
                await save_step_checkpoint(talk.add(said))
            for call in talk.to_run():
                await save_step_checkpoint(talk.add(await talk.tool(call).ainvoke(call)))
            if calls := talk.to_ask():
                answers = await wait_all(*talk.questions(calls))
                for call, answer in zip(calls, answers, strict=True):
                    came = talk.decide(call, answer)
                    if not isinstance(came, ToolMessage):
                        came = await talk.tool(came).ainvoke(came)
                    await save_step_checkpoint(talk.add(came, call))
        return talk.messages


async def _tell(on_stream: Any, chunk: Any, key: str) -> None:
    if on_stream is not None and inspect.isawaitable(awaited := on_stream(chunk, key)):
        await awaited
