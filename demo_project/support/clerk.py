"""The clerk at the readers' desk: an agent whose model speaks from a script, without network or key.

What it does not find in the house rules it asks a person, through the `ask_human` tool.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

from django.conf import settings
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field

from django_stephooks.contrib.langgraph import ask_human
from django_stephooks.contrib.langgraph.interrupts import NO_ANSWER

# How long the model thinks about a word, in parts of NEWSROOM_PACE.
A_WORD = 0.06

HOUSE_RULES = {
    r"\b(price|costs?|subscri\w*|pay)\b": (
        "A copy is two pence, and a year of them eight shillings. You may begin with any Monday."
    ),
    r"\b(hours?|open|visit)\b": "The counter in Fleet Street is open from eight to six, Saturdays to noon.",
    r"\b(thanks?|thank you)\b": "You are most welcome.",
}
ASKING = "That is not in my book of house rules. Let me ask a colleague; this may take a while."
PASSING_ON = "So says my colleague. Is there anything else that you would like to know?"
NOBODY_THERE = "I am sorry: nobody who could tell me is in the house. Please write to the editor."


class ScriptedModel(GenericFakeChatModel):
    """LangChain's fake model; what it says depends on the conversation alone.

    So whichever process goes on with a conversation goes on in the script.
    """

    messages: Iterator[AIMessage | str] = Field(default_factory=lambda: iter(()))

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> ScriptedModel:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=next_line(messages))])

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **options: Any
    ) -> Iterator[ChatGenerationChunk]:
        line = next_line(messages)
        for word in re.findall(r"\S+\s*", str(line.text)):
            time.sleep(A_WORD * getattr(settings, "NEWSROOM_PACE", 0))
            yield ChatGenerationChunk(message=AIMessageChunk(word))
        calls = [
            {"name": call["name"], "args": json.dumps(call["args"]), "id": call["id"], "index": place}
            for place, call in enumerate(line.tool_calls)
        ]
        yield ChatGenerationChunk(message=AIMessageChunk("", tool_call_chunks=calls, chunk_position="last"))


def next_line(messages: Sequence[BaseMessage]) -> AIMessage:
    """What the clerk says next."""
    last = messages[-1]
    if isinstance(last, ToolMessage):
        return AIMessage(NOBODY_THERE if last.text == NO_ANSWER else PASSING_ON)
    asked = str(last.text)
    for subject, rule in HOUSE_RULES.items():
        if re.search(subject, asked, re.IGNORECASE):
            return AIMessage(rule)
    call = {"name": ask_human.name, "args": {"question": f"A reader asks: {asked}"}, "id": "colleague"}
    return AIMessage(ASKING, tool_calls=[call])


CLERK = create_agent(ScriptedModel(), tools=[ask_human])


def part_of(message: BaseMessage) -> dict[str, str] | None:
    """A message of the agent's, or a chunk of one, as the reader sees it; None for what is not for them."""
    text = str(message.text)
    if isinstance(message, AIMessage | AIMessageChunk) and text:
        return {"who": "clerk", "name": "The clerk", "text": text}
    if isinstance(message, ToolMessage) and text != NO_ANSWER:
        return {"who": "colleague", "name": "A colleague", "text": text}
    return None
