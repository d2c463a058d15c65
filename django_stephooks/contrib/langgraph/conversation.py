"""One graph's conversation with people, in one call of a step: what is stored, asked and sent next.

`agent` and `aio` drive it: they stream the graph and wait for people. Nothing here waits for anything.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.errors import is_invalid_resume
from langgraph.types import Command, Interrupt, StateSnapshot

from django_stephooks.contrib.digests import digest
from django_stephooks.contrib.within import Within
from django_stephooks.exceptions import StepHooksError
from django_stephooks.questions import Question, question

from .interrupts import Ask, Asking, asking
from .watching import Watch, WatchedSaver

logger = logging.getLogger("django_stephooks.contrib.langgraph")

THREAD = "agent"


class Conversation:
    """`stored` is what was saved of it: None for a new one.

    Stored are the graph's thread, what the graph said about answers that it refused (`refused`, by the
    `Ask.key`), and the keys of the questions whose answers it was given (`read`).
    """

    def __init__(
        self,
        graph: Any,
        within: Within,
        stored: Any,
        *,
        name: str,
        config: RunnableConfig | None,
        schemas: Sequence[Any],
        asking_options: Mapping[str, Any],
        stream_mode: str | Sequence[str],
    ) -> None:
        if graph.checkpointer is not None:
            raise StepHooksError(
                "run_agent() keeps the graph's state in the step's checkpoint: compile the graph without a "
                "checkpointer of its own."
            )
        stored = stored or {"threads": {}, "refused": {}, "read": []}
        self.within = within
        self.read: list[str] = stored["read"]
        within.have_been_read(name, self.read)
        self.refused: dict[str, list[str]] = stored["refused"]
        self.watch = Watch()
        self.saver = WatchedSaver(stored["threads"], self.watch)
        self.graph = graph.copy({"checkpointer": self.saver})
        own: RunnableConfig = {
            "configurable": {"thread_id": THREAD, "__pregel_strict_resume": True},
            "callbacks": [self.watch],
        }
        self.config = merge_configs(config, own)
        self.name = name
        self.schemas = schemas
        self.asking_options = asking_options
        self.modes = [stream_mode] if isinstance(stream_mode, str) else [*stream_mode]
        self.is_single = isinstance(stream_mode, str)
        self.saved = self.saver.changes
        self.sent: list[Asking] = []
        self.counts: dict[str, int] = {}
        self.at = ""

    # What is stored.

    @property
    def has_begun(self) -> bool:
        return bool(self.saver.threads)

    def unsaved(self) -> Any:
        """What is to be stored now; None if that is stored already."""
        if self.saver.changes == self.saved:
            return None
        self.saved = self.saver.changes
        self.saver.prune([THREAD])
        return {
            "threads": self.saver.threads,
            "refused": self.refused,
            "read": self.read,
        }

    # What is asked.

    def askings(self, state: StateSnapshot) -> list[Asking]:
        return [asking(interrupt, self.schemas) for interrupt in state.interrupts]

    def questions(self, askings: Sequence[Asking]) -> list[Question]:
        """One for each answer wanted, with a key that names what it is about."""
        questions = [self._question(ask) for one in askings for ask in one.asks]
        if given_up := self.within.give_up_others(questions, self.read):
            self.read += given_up
            self.saver.note()
        return questions

    def _key(self, ask: Ask) -> str:
        refusals = len(self.refused.get(ask.key, ()))
        return f"{ask.key}-{refusals}" if refusals else ask.key

    def _question(self, ask: Ask) -> Question:
        refusals = self.refused.get(ask.key)
        description = ask.description
        if refusals:
            description = f"{description}\n\nThe last answer was refused: {refusals[-1]}".strip()
        return question(
            self.name,
            key=self._key(ask),
            title=ask.title[:500],
            description=description,
            context=ask.context,
            payload_schema=ask.schema,
            **self.asking_options,
        )

    # What is sent.

    def command(self, askings: Sequence[Asking], given: Sequence[Any]) -> Command[Any]:
        """Resume the graph with what was answered.

        Answers that the graph checks are sent one by one, the rest together: beside one that is
        refused, what others had let happen could happen again.
        """
        answers = iter(given)
        answered = [(one, one.answer([next(answers) for _ in one.asks])) for one in askings]
        unchecked = [pair for pair in answered if not pair[0].is_checked]
        sending = unchecked or answered[:1]
        self.sent = [one for one, _ in sending]
        self.read += [
            key for one in self.sent for ask in one.asks if (key := self._key(ask)) not in self.read
        ]
        return Command(resume={one.id: answer for one, answer in sending})

    def check_taken(self, pending: Sequence[Interrupt[Any]]) -> None:
        """An answer that the graph still waits for was not taken: an error, not silence."""
        waiting = {interrupt.id for interrupt in pending}
        if lost := [one.id for one in self.sent if one.id in waiting]:
            raise StepHooksError(f"The graph did not take the answer to its interrupt {lost[0]}.")
        self.sent = []

    def refuse(self, error: Exception) -> bool:
        """Whether this means that the graph refused an answer; then its question is to be asked again."""
        if not (is_invalid_resume(error) and len(self.sent) == 1):
            return False
        (one,) = self.sent
        for ask in one.asks:
            self.refused.setdefault(ask.key, []).append(str(error)[:2000])
        self.sent = []
        self.saver.note()
        return True

    # What is streamed.

    def stream_options(self, command: Any, context: Any) -> dict[str, Any]:
        self.counts = {}
        self.watch.swallowed.clear()
        modes = [*dict.fromkeys([*self.modes, "tasks"])]
        return {
            "input": command,
            "config": self.config,
            "context": context,
            "stream_mode": modes,
            "durability": "sync",
        }

    def is_early(self, mode: str, chunk: Any) -> bool:
        """Whether this tells of what a task did, and the saver was not told yet: that comes behind it."""
        return mode == "tasks" and "result" in chunk and not self.saver.holds(chunk["id"])

    def chunks(self, mode: str, chunk: Any) -> Iterator[tuple[Any, str]]:
        """What of this is for the project, with a key that is the same whenever it comes again.

        A task that was interrupted runs again from its top, so its chunks are counted from there.
        """
        if mode == "tasks":
            if "result" in chunk:
                self.saver.release(chunk["id"])
            else:
                self.at = chunk["id"]
                self.saver.release_all()  # of tasks that LangGraph does not tell of, in the step before
        if mode not in self.modes or (mode == "updates" and chunk.get("__metadata__", {}).get("cached")):
            return  # a task that was done before, in this step of the graph, was told of then
        if mode == "messages":
            place = chunk[1].get("langgraph_checkpoint_ns", "")
            if place.rpartition(":")[2] in self.watch.swallowed:
                return  # what came of it is taken back
            position = digest(place)
        else:
            position = digest(self.at, mode, chunk)
        number = self.counts[position] = self.counts.get(position, 0) + 1
        yield (chunk if self.is_single else (mode, chunk)), f"{position}:{number}"

    def result(self, state: StateSnapshot) -> Any:
        """What `graph.invoke` returns."""
        outputs = self.graph.output_channels
        if isinstance(outputs, str):
            return state.values
        return {name: state.values[name] for name in outputs if name in state.values}

    def warn_swallowed(self) -> None:
        logger.warning(
            "Code around a tool of %r caught its interrupt (an error middleware?); it is asked all the same.",
            self.name,
        )
