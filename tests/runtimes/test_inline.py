"""Turns in the calling process: after the commit, one after the other, in their own context."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest
from django.db import transaction
from django.utils import translation

from django_stephooks.runtimes import base
from django_stephooks.runtimes.inline import InlineRuntime

from . import stand_in

frame: ContextVar[str] = ContextVar("frame", default="none")


@pytest.fixture
def runtime(worked: list[str]) -> InlineRuntime:
    return InlineRuntime()


def test_work_is_done_when_ring_returns(runtime: InlineRuntime, worked: list[str]) -> None:
    runtime.ring("a")
    runtime.ring_again("b")
    assert worked == ["a", "b"]


def test_bell_rung_by_a_turn_waits_for_the_turn_to_end(runtime: InlineRuntime, worked: list[str]) -> None:
    log = []

    def start_children(queue: str) -> None:
        log.append(f"{queue} begins")
        runtime.picked_up(queue)
        if queue == "parent":
            runtime.ring("child")
            runtime.ring("other child")
            runtime.ring("child")
        log.append(f"{queue} ends")

    stand_in.during.append(start_children)
    runtime.ring("parent")
    assert log == [
        "parent begins",
        "parent ends",
        "child begins",
        "child ends",
        "other child begins",
        "other child ends",
    ]


def test_turn_that_rings_for_its_own_queue_is_followed_by_another_look(
    runtime: InlineRuntime, worked: list[str]
) -> None:
    stand_in.during.append(lambda queue: runtime.ring(queue) if len(worked) < 3 else None)
    runtime.ring("a")
    assert worked == ["a", "a", "a"]


def test_chain_longer_than_the_recursion_limit(runtime: InlineRuntime, worked: list[str]) -> None:
    stand_in.during.append(lambda queue: runtime.ring(queue) if len(worked) < 3000 else None)
    runtime.ring("a")
    assert len(worked) == 3000


def test_turn_does_not_see_the_callers_context(runtime: InlineRuntime) -> None:
    seen = []
    stand_in.during.append(lambda queue: seen.append((frame.get(), translation.get_language())))
    reset = frame.set("inside a run")
    try:
        with translation.override("de"):
            runtime.ring("a")
    finally:
        frame.reset(reset)
    assert seen == [("none", "en-us")]


def test_error_in_a_turn_is_logged_and_the_next_is_worked_on(
    runtime: InlineRuntime, worked: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(queue: str) -> None:
        if queue == "a":
            runtime.ring("b")
            raise ZeroDivisionError

    stand_in.during.append(fail)
    runtime.ring("a")
    assert worked == ["a", "b"]
    assert "Working on queue 'a' failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_stop_goes_through_and_leaves_the_runtime_usable(
    runtime: InlineRuntime, worked: list[str], stop: type[BaseException]
) -> None:
    def interrupt(queue: str) -> None:
        stand_in.during.clear()
        raise stop

    stand_in.during.append(interrupt)
    with pytest.raises(stop):
        runtime.ring("a")
    runtime.ring("b")
    assert worked == ["a", "b"]


def test_threads_do_not_wait_for_each_other(runtime: InlineRuntime, worked: list[str]) -> None:
    def ring_elsewhere(queue: str) -> None:
        if queue == "a":
            thread = threading.Thread(target=runtime.ring, args=("b",))
            thread.start()
            thread.join()
            assert worked == ["a", "b"]

    stand_in.during.append(ring_elsewhere)
    runtime.ring("a")
    assert worked == ["a", "b"]


def test_turn_rung_in_an_event_loop_may_have_a_loop_of_its_own(
    runtime: InlineRuntime, worked: list[str]
) -> None:
    async def step() -> str:
        return threading.current_thread().name

    names = []
    stand_in.during.append(lambda queue: names.append(asyncio.run(step())))

    async def notebook_cell() -> None:
        runtime.ring("a")
        assert worked == ["a"]

    asyncio.run(notebook_cell())
    assert names[0].startswith("stephooks-inline")


def test_stop_goes_through_from_an_event_loop_too(runtime: InlineRuntime) -> None:
    def interrupt(queue: str) -> None:
        raise SystemExit(3)

    stand_in.during.append(interrupt)

    async def notebook_cell() -> None:
        with pytest.raises(SystemExit):
            runtime.ring("a")

    asyncio.run(notebook_cell())


@pytest.mark.django_db(transaction=True)
def test_rollback_works_on_nothing(worked: list[str]) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        base.ring_after_commit("default", using="default")
        raise ZeroDivisionError
    assert worked == []
    with transaction.atomic():
        base.ring_after_commit("default", using="default")
        assert worked == []
    assert worked == ["default"]
