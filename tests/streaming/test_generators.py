"""A step that yields emits each value, and returns what it returns."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from django_stephooks import step, workflow
from django_stephooks.exceptions import NotInRunError

from . import workflows
from .seeing import answered, sent, turn

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("streams")]


def test_its_values_are_emitted_and_its_return_value_is_the_result() -> None:
    run = turn(workflows.asks_whoever_tells.start("why?"))
    assert sent(run) == ["let me see"]

    run = answered(run, "because")

    assert run.result == "done"
    assert sent(run) == ["let me see", "why? because"]
    assert workflows.noted == ["closed", "closed"]


def test_an_async_one_has_no_result() -> None:
    run = turn(workflows.asks_whoever_tells_async.start("why?"))

    run = answered(run, "because")

    assert (run.status, run.result) == ("completed", None)
    assert sent(run) == ["let me see", "why? because"]


def test_it_can_be_started_on_its_own() -> None:
    run = answered(turn(workflows.tells.start("why?")), "because")

    assert run.result == "done"
    assert sent(run) == ["let me see", "why? because"]


def test_what_it_yields_must_be_json(settings: Any) -> None:
    run = turn(yields_an_object.start())

    assert run.status == "failed"
    assert run.error["message"].startswith("chunk: ")
    assert workflows.noted == ["closed"]


@step(max_retries=0)
def yields_an_object() -> Any:
    try:
        yield object()
    finally:
        workflows.noted.append("closed")


def test_outside_a_run_it_runs_to_its_end() -> None:
    @step
    def counts() -> Any:
        workflows.noted.append((yield 1))
        return "counted"

    assert counts() == "counted"
    assert workflows.noted == [None]
    assert list(counts.function()) == [1]
    with pytest.raises(NotInRunError):
        workflows.tells("why?")


def test_outside_a_run_an_async_one_is_awaited() -> None:
    @step
    async def counts() -> Any:
        yield 1
        workflows.noted.append("counted")

    assert asyncio.run(counts()) is None
    assert workflows.noted == ["counted"]


def test_a_workflow_does_not_yield() -> None:
    def yields() -> Any:
        yield 1

    with pytest.raises(TypeError, match="only a step"):
        workflow(yields)
