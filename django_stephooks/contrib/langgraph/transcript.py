"""`run_transcript`: a chat model and its tools talk in a step, without a graph or a LangGraph saver.

What is stored is the transcript itself. Each call of a tool has its answer in it before the model is
asked again: models refuse a transcript in which one is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ToolCall,
    ToolMessage,
    convert_to_messages,
    message_chunk_to_message,
    messages_from_dict,
    messages_to_dict,
)

from django_stephooks.contrib.decisions import NO_ANSWER, NOT_DONE, Decision, Reply, decision_schema
from django_stephooks.contrib.digests import key_of
from django_stephooks.contrib.within import Within, call_within
from django_stephooks.exceptions import StepHooksError
from django_stephooks.primitives import load_step_checkpoint, save_step_checkpoint, wait_all
from django_stephooks.questions import Question, question
from django_stephooks.types import STEP_HOOK_TIMEOUT

DECIDES = ("approve", "reject")


def run_transcript(
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
    """Let a chat model and its tools talk until it calls none any more; returns the transcript.

    `model`: a chat model that its tools are bound to. `asks`: tools (or their names) that are questions to a
    person, in their argument `question`; they are never run. `approve`: tools that run only if a person
    allows the call. Of one message of the model's, the tools that ask nobody run first.

    `timeout`, `on_created`, `reviewers`: as for `step_hook`, for each question; with `on_timeout="return"`
    the model is told that nobody answered. `on_stream(chunk, key)` gets what the model streams.
    More than `max_rounds` messages of the model's are an error.
    """
    with call_within(name, "run_transcript") as within:
        options = {
            "timeout": timeout,
            "on_timeout": on_timeout,
            "on_created": on_created,
            "reviewers": reviewers,
        }
        talk = Transcript(within, load_step_checkpoint(), messages, tools, asks, approve, name, options)
        while not talk.is_over:
            if talk.is_the_models_turn:
                talk.check_rounds(max_rounds)
                if on_stream is None:
                    said = model.invoke(talk.messages)
                else:
                    said = None
                    for number, chunk in enumerate(model.stream(talk.messages)):
                        on_stream(chunk, talk.chunk_key(number))
                        said = chunk if said is None else said + chunk
                save_step_checkpoint(talk.add(said))
            for call in talk.to_run():
                save_step_checkpoint(talk.add(talk.tool(call).invoke(call)))
            if calls := talk.to_ask():
                answers = wait_all(*talk.questions(calls))
                for call, answer in zip(calls, answers, strict=True):
                    came = talk.decide(call, answer)
                    if not isinstance(came, ToolMessage):
                        came = talk.tool(came).invoke(came)
                    save_step_checkpoint(talk.add(came, call))
        return talk.messages


class Transcript:
    """What was said so far, and what is to come next. `read`: keys of the answers that are in it."""

    def __init__(
        self,
        within: Within,
        stored: Any,
        messages: Any,
        tools: Sequence[Any],
        asks: Iterable[Any],
        approve: Iterable[Any],
        name: str,
        asking_options: dict[str, Any],
    ) -> None:
        self.messages = messages_from_dict(stored["messages"]) if stored else convert_to_messages(messages)
        self.read: list[str] = stored["read"] if stored else []
        within.have_been_read(name, self.read)
        self.tools = {tool.name: tool for tool in tools}
        self.asks = {getattr(tool, "name", tool) for tool in asks}
        self.approve = {getattr(tool, "name", tool) for tool in approve}
        self.name = name
        self.asking_options = asking_options
        self.begun = len(self.messages) if stored is None else stored["begun"]

    def add(self, message: Any, asked: ToolCall | None = None) -> dict[str, Any]:
        """Note what was said (if a person was asked, to this call); returns what is to be stored."""
        if isinstance(message, BaseMessage) and not isinstance(message, ToolMessage):
            message = message_chunk_to_message(message)
        self.messages.append(message)
        if asked is not None:
            self.read.append(self.key(asked))
        return {
            "messages": messages_to_dict(self.messages),
            "pending": [call["id"] for call in self.dangling],
            "read": self.read,
            "begun": self.begun,
        }

    # Whose turn it is.

    @property
    def _said(self) -> int:
        """Where the model's last message is; -1 if it has not spoken in this talk."""
        places = range(len(self.messages) - 1, self.begun - 1, -1)
        return next((place for place in places if isinstance(self.messages[place], AIMessage)), -1)

    @property
    def dangling(self) -> list[ToolCall]:
        """The calls in the model's last message that nothing has answered yet."""
        said = self._said
        if said < 0:
            return []
        answered = {getattr(message, "tool_call_id", None) for message in self.messages[said + 1 :]}
        return [call for call in getattr(self.messages[said], "tool_calls", ()) if call["id"] not in answered]

    @property
    def is_the_models_turn(self) -> bool:
        return not self.dangling and not self.is_over

    @property
    def is_over(self) -> bool:
        said = self._said
        return said >= 0 and not getattr(self.messages[said], "tool_calls", ())

    def check_rounds(self, most: int) -> None:
        rounds = sum(isinstance(message, AIMessage) for message in self.messages[self.begun :])
        if rounds >= most:
            raise StepHooksError(
                f"The model has called tools in {most} messages and does not come to an end."
            )

    def chunk_key(self, number: int) -> str:
        return f"{len(self.messages)}:{number}"

    # What tools and people say.

    def to_run(self) -> list[ToolCall]:
        return [call for call in self.dangling if call["name"] not in self.asks | self.approve]

    def to_ask(self) -> list[ToolCall]:
        return [call for call in self.dangling if call["name"] in self.asks | self.approve]

    def tool(self, call: ToolCall) -> Any:
        try:
            return self.tools[call["name"]]
        except KeyError:
            raise StepHooksError(
                f"The model called {call['name']!r}, which is none of the tools given."
            ) from None

    def key(self, call: ToolCall) -> str:
        return key_of(call["id"] or "", self._said, call["name"], call["args"])

    def questions(self, calls: Sequence[ToolCall]) -> list[Question]:
        return [self._question(call) for call in calls]

    def _question(self, call: ToolCall) -> Question:
        if call["name"] in self.asks:
            title = str(call["args"].get("question") or call["name"])
            context = None
        else:
            title = f"Allow {call['name']}?"
            context = {"tool": call["name"], "arguments": call["args"]}
        return question(
            self.name,
            key=self.key(call),
            title=title[:500],
            context=context,
            payload_schema=Reply if call["name"] in self.asks else decision_schema(DECIDES),
            **self.asking_options,
        )

    def decide(self, call: ToolCall, answer: Reply | Decision | Any) -> ToolMessage | ToolCall:
        """The message that stands for the answer; or, if it allows it, the call that is to be made."""
        if answer is STEP_HOOK_TIMEOUT:
            text = NO_ANSWER if call["name"] in self.asks else NOT_DONE
            return ToolMessage(text, tool_call_id=call["id"], name=call["name"], status="error")
        if isinstance(answer, Reply):
            return ToolMessage(answer.answer, tool_call_id=call["id"], name=call["name"])
        if answer.type == "approve":
            return call
        text = getattr(answer, "message", "") or "A person has rejected this call. It was not made."
        return ToolMessage(text, tool_call_id=call["id"], name=call["name"], status="error")
