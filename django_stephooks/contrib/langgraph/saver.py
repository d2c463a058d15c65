"""A LangGraph checkpoint saver whose threads are one value that a step's checkpoint can hold."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

# thread → namespace → {"checkpoints": {id: …}, "values": {channel: {version: …}}}, serialized inside.
Threads = dict[str, dict[str, dict[str, Any]]]


class StepSaver(BaseCheckpointSaver[Any]):
    """Keeps threads in `threads`: plain data, for `save_step_checkpoint(saver.threads)`.

        saver = StepSaver(load_step_checkpoint())
        for _ in graph.copy({"checkpointer": saver}).stream(…):
            save_step_checkpoint(saver.threads)

    It does not write to the database by itself: a graph calls its saver in threads of its own, and a
    run belongs to the thread of its step. `changes` counts what was put; `run_agent` looks at it.
    """

    def __init__(self, threads: Threads | None = None, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self.threads: Threads = {} if threads is None else threads
        # Shared with the copies that `with_allowlist` makes.
        self._state = {"changes": 0}
        self._lock = threading.Lock()

    @property
    def changes(self) -> int:
        return self._state["changes"]

    # Reading.

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread_id, ns = _place(config)
        with self._lock:
            space = self.threads.get(thread_id, {}).get(ns)
            if space is None:
                return None
            checkpoint_id = get_checkpoint_id(config) or max(space["checkpoints"], default="")
            if checkpoint_id not in space["checkpoints"]:
                return None
            return self._tuple(thread_id, ns, space, checkpoint_id)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        wanted = config["configurable"] if config else {}
        until = get_checkpoint_id(before) if before else None
        with self._lock:
            found = [
                self._tuple(thread_id, ns, space, checkpoint_id)
                for thread_id, spaces in self.threads.items()
                if thread_id == wanted.get("thread_id", thread_id)
                for ns, space in spaces.items()
                if ns == wanted.get("checkpoint_ns", ns)
                for checkpoint_id in sorted(space["checkpoints"], reverse=True)
                if checkpoint_id == wanted.get("checkpoint_id", checkpoint_id)
                if until is None or checkpoint_id < until
            ]
        for known in found:
            if limit is not None and limit <= 0:
                return
            metadata: dict[str, Any] = dict(known.metadata)
            if all(metadata.get(name) == value for name, value in (filter or {}).items()):
                limit = None if limit is None else limit - 1
                yield known

    def _tuple(self, thread_id: str, ns: str, space: dict[str, Any], checkpoint_id: str) -> CheckpointTuple:
        stored = space["checkpoints"][checkpoint_id]
        checkpoint: Checkpoint = self._loads(stored["checkpoint"])
        checkpoint["channel_values"] = {
            channel: self._loads(space["values"][channel][str(version)])
            for channel, version in checkpoint["channel_versions"].items()
            if str(version) in space["values"].get(channel, ())
        }
        writes = sorted(stored["writes"].values(), key=lambda write: writes_sort_key(write[4], *write[:2]))
        return CheckpointTuple(
            config=_config(thread_id, ns, checkpoint_id),
            checkpoint=checkpoint,
            metadata=self._loads(stored["metadata"]),
            parent_config=_config(thread_id, ns, stored["parent"]) if stored["parent"] else None,
            pending_writes=[(task, channel, self._loads(value)) for task, _, channel, value, _ in writes],
        )

    def _loads(self, value: Sequence[Any]) -> Any:
        return self.serde.loads_typed((value[0], value[1]))

    def _dumps(self, value: Any) -> Sequence[Any]:
        return [*self.serde.dumps_typed(value)]

    # Writing.

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        thread_id, ns = _place(config)
        values = checkpoint["channel_values"]
        rest = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        dumped = {
            channel: {str(version): self._dumps(values[channel])}
            for channel, version in new_versions.items()
            if channel in values
        }
        with self._lock:
            spaces = self.threads.setdefault(thread_id, {})
            space = spaces.setdefault(ns, {"checkpoints": {}, "values": {}})
            for channel, versions in dumped.items():
                space["values"].setdefault(channel, {}).update(versions)
            known = space["checkpoints"].get(checkpoint["id"])
            space["checkpoints"][checkpoint["id"]] = {
                "checkpoint": self._dumps(rest),
                "metadata": self._dumps(get_checkpoint_metadata(config, metadata)),
                "parent": get_checkpoint_id(config),
                "writes": known["writes"] if known else {},
            }
            self._note()
        return _config(thread_id, ns, checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        thread_id, ns = _place(config)
        dumped = [
            (task_id, WRITES_IDX_MAP.get(channel, place), channel, self._dumps(value), task_path)
            for place, (channel, value) in enumerate(writes)
        ]
        with self._lock:
            space = self.threads.get(thread_id, {}).get(ns, {"checkpoints": {}})
            stored = space["checkpoints"].get(get_checkpoint_id(config))
            if stored is None:
                return  # pruned meanwhile: what came of these writes is in the checkpoint behind it
            for write in dumped:
                key = f"{task_id} {write[1]}"
                # What a task wrote stands; what became of it (an error, an interrupt) may change.
                if write[1] < 0 or key not in stored["writes"]:
                    stored["writes"][key] = [*write]
            self._note()

    def _note(self) -> None:
        self._state["changes"] += 1

    # Deleting.

    def delete_thread(self, thread_id: str) -> None:
        with self._lock:
            self.threads.pop(thread_id, None)
            self._note()

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        with self._lock:
            for spaces in self.threads.values():
                for space in spaces.values():
                    for checkpoint_id, stored in [*space["checkpoints"].items()]:
                        if self._loads(stored["metadata"]).get("run_id") in run_ids:
                            del space["checkpoints"][checkpoint_id]
                    self._drop_unused_values(space)
            self._note()

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        with self._lock:
            self.threads[target_thread_id] = _copied(self.threads.get(source_thread_id, {}))
            self._note()

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Forget what came before the latest checkpoints; all with `strategy="delete"`."""
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
                continue
            with self._lock:
                for space in self.threads.get(thread_id, {}).values():
                    self._prune(space)

    def _prune(self, space: dict[str, Any]) -> None:
        latest = max(space["checkpoints"], default=None)
        if latest is None:
            return
        if "counters_since_delta_snapshot" in self._loads(space["checkpoints"][latest]["metadata"]):
            return  # a DeltaChannel is rebuilt from what came before
        space["checkpoints"] = {latest: space["checkpoints"][latest]}
        self._drop_unused_values(space)

    def _drop_unused_values(self, space: dict[str, Any]) -> None:
        used = {
            (channel, str(version))
            for stored in space["checkpoints"].values()
            for channel, version in self._loads(stored["checkpoint"])["channel_versions"].items()
        }
        for channel, versions in space["values"].items():
            for version in [*versions]:
                if (channel, version) not in used:
                    del versions[version]

    # The same for async code: nothing here waits for anything.

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self.get_tuple(config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        for known in self.list(config, filter=filter, before=before, limit=limit):
            yield known

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return self.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        self.put_writes(config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        self.delete_thread(thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        self.delete_for_runs(run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self.copy_thread(source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self.prune(thread_ids, strategy=strategy)


def _place(config: RunnableConfig) -> tuple[str, str]:
    where = config["configurable"]
    return where["thread_id"], where.get("checkpoint_ns", "")


def _config(thread_id: str, ns: str, checkpoint_id: str) -> RunnableConfig:
    where = {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}
    return {"configurable": where}


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [*value] if isinstance(value, list) else value
