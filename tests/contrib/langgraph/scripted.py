"""A chat model that says what a script says, and counts how often it was asked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult


def calls(*asked: tuple[str, dict[str, Any], str], text: str = "") -> AIMessage:
    """What a model says that wants tools called: name, arguments, id of each."""
    return AIMessage(text, tool_calls=[{"name": name, "args": args, "id": id} for name, args, id in asked])


class ScriptedModel(BaseChatModel):
    """What it says next depends on nothing but how often it has spoken in the conversation so far.

    So each process that goes on with a conversation goes on in the script. `told` is called with
    that number whenever it is asked to speak.
    """

    script: list[AIMessage]
    told: Callable[[int], None] = lambda number: None

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> ScriptedModel:
        return self

    def _next(self, messages: list[BaseMessage]) -> AIMessage:
        number = sum(isinstance(message, AIMessage) for message in messages)
        self.told(number)
        return self.script[number]

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        message = self._next(messages).model_copy(deep=True)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> Iterator[ChatGenerationChunk]:
        import json

        said = self._next(messages)
        for word in re.findall(r"\S+\s*", said.text):
            yield ChatGenerationChunk(message=AIMessageChunk(word))
        asked = [
            tool_call_chunk(name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=place)
            for place, call in enumerate(said.tool_calls)
        ]
        if asked or not said.text:
            yield ChatGenerationChunk(message=AIMessageChunk("", tool_call_chunks=asked))
