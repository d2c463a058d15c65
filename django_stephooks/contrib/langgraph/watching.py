"""Sees what a graph's code hides from the graph: interrupts that code around a tool has caught.

LangGraph's interrupts are Exceptions, so an error middleware takes them for errors of the tool. What it
made of one is not stored, the interrupt is; and the graph is stopped before it goes on with that.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import connections
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.serde.types import INTERRUPT
from langgraph.errors import GraphInterrupt

from .saver import StepSaver, Threads

# LangGraph's own name for what is written by no task (an input, an answer).
NULL_TASK_ID = "00000000-0000-0000-0000-000000000000"


class InterruptSwallowed(BaseException):
    """Stops a graph behind a step in which an interrupt was caught. No Exception: nobody is to catch it."""


class Watch(BaseCallbackHandler):
    """Told of the graph's tools where they run. `swallowed`: interrupts by the task that they stopped."""

    run_inline = True

    def __init__(self) -> None:
        self.swallowed: dict[str, Sequence[Any]] = {}
        self._tasks: dict[UUID, str] = {}
        self._thread = threading.get_ident()

    def on_tool_start(
        self, serialized: Any, input_str: str, *, run_id: UUID, metadata: Any = None, **kwargs: Any
    ) -> None:
        place = (metadata or {}).get("langgraph_checkpoint_ns", "")
        self._tasks[run_id] = place.rpartition(":")[2]

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        task = self._tasks.pop(run_id, "")
        if isinstance(error, GraphInterrupt) and error.args and error.args[0]:
            self.swallowed[task] = error.args[0]
        self._close_connections()

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        self._tasks.pop(run_id, None)
        self._close_connections()

    def on_chain_end(self, outputs: Any, **kwargs: Any) -> None:
        self._close_connections()

    def on_chain_error(self, error: BaseException, **kwargs: Any) -> None:
        self._close_connections()

    def _close_connections(self) -> None:
        # LangGraph's threads end with the stream; what they opened nobody else would close.
        if threading.get_ident() != self._thread:
            for connection in connections.all(initialized_only=True):
                if not connection.in_atomic_block:
                    connection.close()


class WatchedSaver(StepSaver):
    """The saver of a conversation that is watched.

    What the graph's tasks wrote is held back until whoever consumes the stream has come to the end of the
    task (`release`). Else a process that is killed could leave stored what it had not yet told of.
    """

    def __init__(self, threads: Threads, watch: Watch) -> None:
        super().__init__(threads)
        self.watch = watch
        self._held: dict[str, tuple[Any, ...]] = {}

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        if interrupts := self.watch.swallowed.get(task_id):
            if any(channel == INTERRUPT for channel, _ in writes):
                del self.watch.swallowed[task_id]  # nobody caught it
            else:
                writes = [(INTERRUPT, interrupts)]
        if config["configurable"].get("checkpoint_ns") or task_id == NULL_TASK_ID:
            super().put_writes(config, writes, task_id, task_path)
        else:
            self._held[task_id] = (config, writes, task_id, task_path)

    def holds(self, task_id: str) -> bool:
        return task_id in self._held

    def release(self, task_id: str) -> None:
        if held := self._held.pop(task_id, None):
            super().put_writes(*held)

    def release_all(self) -> None:
        """The stream is over, or broken off: what was done counts, told of or not."""
        for task_id in [*self._held]:
            self.release(task_id)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        if self.watch.swallowed:
            raise InterruptSwallowed
        return super().put(config, checkpoint, metadata, new_versions)

    def note(self) -> None:
        """Something beside the threads has changed."""
        with self._lock:
            self._note()
