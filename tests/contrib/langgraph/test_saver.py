"""The saver of a step's checkpoint, through LangGraph's conformance suite and the database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.types import Command

from django_stephooks import aio, load_step_checkpoint, save_step_checkpoint, step, step_hook
from django_stephooks.contrib.langgraph import StepSaver
from django_stephooks.models import StepCheckpoint

from .agents import GRAPHS, HELLO, texts
from .playing import answer, work

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_worker")]


def stored(name: str) -> Callable[..., Any]:
    """The method of a saver made anew from what is stored; what it changed is stored again."""

    async def call(self: StoredSaver, *args: Any, **kwargs: Any) -> Any:
        saver = await self.load()
        result = await getattr(saver, name)(*args, **kwargs)
        if saver.changes:
            await aio.save_step_checkpoint(saver.threads)
            self.saves += 1
        return result

    return call


class StoredSaver(BaseCheckpointSaver[Any]):
    """Keeps nothing: as if each of its methods was called in another process."""

    saves = 0

    async def load(self) -> StepSaver:
        return StepSaver(await aio.load_step_checkpoint())

    async def alist(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async for found in (await self.load()).alist(*args, **kwargs):
            yield found

    for _name in ("aget_tuple", "aput", "aput_writes", "adelete_thread", "adelete_for_runs", "acopy_thread"):
        locals()[_name] = stored(_name)

    async def aprune(self, *args: Any, **kwargs: Any) -> None:
        saver = await self.load()
        await saver.aprune(*args, **kwargs)
        await aio.save_step_checkpoint(saver.threads)


@step(max_retries=0)
async def conforms() -> Any:
    saver = StoredSaver()

    @checkpointer_test(name="StepSaver")
    async def made() -> AsyncIterator[Any]:
        yield saver

    report = await validate(made)
    results = {name: [result.tests_passed, result.failures] for name, result in report.results.items()}
    return {"results": results, "saves": saver.saves}


def test_it_conforms_to_langgraphs_suite():
    run = work(conforms.start())
    assert run.status == "completed", run.error
    results = run.result["results"]
    assert {*results} == {
        *("put", "put_writes", "get_tuple", "list", "delete_thread"),
        *("delete_for_runs", "copy_thread", "prune"),
    }
    for name, (passed, failures) in results.items():
        assert passed >= 5, name
        assert failures == [], name
    assert run.result["saves"] > 100


@step(max_retries=0)
def loop_of_ones_own() -> Any:
    """What `run_agent` does, by hand."""
    saver = StepSaver(load_step_checkpoint())
    graph = GRAPHS["side effect beside a question"].copy({"checkpointer": saver})
    config: Any = {"configurable": {"thread_id": "1"}}
    if not saver.threads:
        graph.invoke(HELLO, config)
        save_step_checkpoint(saver.threads)
    while waiting := graph.get_state(config).interrupts:
        reply = step_hook("colleague", key=waiting[0].id)
        graph.invoke(Command(resume={waiting[0].id: reply}), config)
    return texts(graph.get_state(config).values)


def test_with_a_loop_of_ones_own(did):
    run = work(loop_of_ones_own.start())
    assert answer(run, "They may.").result[2:] == ["paid 30", "They may.", "All is well."]
    assert sorted(did) == ["model 0", "model 1", "refund 7 30"]


def test_thread_of_a_graph_that_counts_its_changes_keeps_what_it_is_rebuilt_from():
    """A DeltaChannel's value is in the checkpoints before: these are not pruned."""
    saver = StepSaver()
    config: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
    for number in (1, 2):
        checkpoint = {**empty_checkpoint(), "id": str(number)}
        metadata: Any = {"counters_since_delta_snapshot": {"messages": [number, number]}}
        config = saver.put(config, checkpoint, metadata, {})  # type: ignore[arg-type]
    saver.prune(["1"])
    assert len([*saver.list(None)]) == 2


def test_checkpoints_are_gone_when_the_run_is_over(did):
    run = work(loop_of_ones_own.start())
    assert StepCheckpoint.objects.filter(run=run).count() == 1
    answer(run, "They may.")
    assert not StepCheckpoint.objects.exists()


def test_writes_that_come_when_their_checkpoint_is_pruned_are_not_needed():
    saver = StepSaver()
    config: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
    first = saver.put(config, {**empty_checkpoint(), "id": "1"}, {}, {})  # type: ignore[typeddict-item]
    saver.put(first, {**empty_checkpoint(), "id": "2"}, {}, {})  # type: ignore[typeddict-item]
    saver.prune(["1"])
    saver.put_writes(first, [("messages", "late")], "task")
    (known,) = saver.list(None)
    assert known.pending_writes == []
