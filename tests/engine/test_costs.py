"""What a turn costs the database: write transactions, and queries that do not grow with the journal."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_stephooks import (
    load_step_checkpoint,
    once,
    question,
    resume_hook,
    save_step_checkpoint,
    sleep,
    step,
    step_hook,
    wait_all,
    wait_first,
    workflow,
)
from django_stephooks.engine.worker import advance
from django_stephooks.models import Hook, Run
from django_stephooks.services.sweep import sweep

from .watching import again

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_worker")]

WRITE = re.compile(r"\s*(INSERT|UPDATE|DELETE|REPLACE|WITH\b.*\b(INSERT|UPDATE|DELETE))\b", re.S | re.I)


def tell(token: str) -> None:
    pass


def ask(on_created: Callable[[str], None] | None) -> Any:
    if load_step_checkpoint() is None:
        save_step_checkpoint({"state": "x" * 2000})
    return step_hook("approve", on_created=on_created)


@step
def lone_step() -> Any:
    return ask(None)


@step
def lone_step_that_tells() -> Any:
    return ask(tell)


@workflow
def workflow_with_one_step() -> Any:
    return lone_step()


@workflow
def workflow_with_one_step_that_tells() -> Any:
    return lone_step_that_tells()


@workflow
def workflow_with_steps_around() -> Any:
    note()
    asked = lone_step()
    note()
    return asked


@step
def note() -> None:
    pass


def write_transactions(action: Callable[[], Any]) -> int:
    """Transactions in which something was written, and writes outside one."""
    with CaptureQueriesContext(connection) as captured:
        action()
    count = 0
    inside = wrote = False
    for query in captured.captured_queries:
        sql = query["sql"].strip()
        if sql.startswith("BEGIN"):
            inside, wrote = True, False
        elif sql in ("COMMIT", "ROLLBACK"):
            count += wrote and sql == "COMMIT"
            inside = wrote = False
        elif WRITE.match(sql):
            wrote = True
            count += not inside
    return count


@pytest.mark.parametrize(
    ("definition", "to_suspend", "to_finish"),
    [
        # start, claim, checkpoint, suspend; resume, claim, settle.
        (lone_step, 4, 3),
        # And one that stores the hook, so that on_created can tell people of it.
        (lone_step_that_tells, 5, 3),
        # A workflow's step is recorded before the workflow goes on.
        (workflow_with_one_step, 4, 4),
        (workflow_with_one_step_that_tells, 5, 4),
        # Each further step is one.
        (workflow_with_steps_around, 5, 5),
    ],
)
def test_write_transactions(definition, to_suspend, to_finish):
    def start_and_suspend() -> None:
        definition.start()
        advance("default")

    assert write_transactions(start_and_suspend) == to_suspend
    hook = Hook.objects.get()

    def resume_and_finish() -> None:
        resume_hook(hook.token, {"answer": "x" * 200})
        advance("default")

    assert write_transactions(resume_and_finish) == to_finish
    assert Run.objects.get().status == Run.Status.COMPLETED


@workflow
def many_calls(count: int) -> str:
    for number in range(count):
        note()
        once(f"{number}", str)
        asks_nobody()
    step_hook("approve")
    sleep("1h")
    return "done"


@step
def asks_nobody() -> None:
    step_hook("quick", on_created=answer_at_once)


def answer_at_once(token: str) -> None:
    resume_hook(token)


def queries_of(action: Callable[[], Any]) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        action()
    return [re.sub(r"'.*?'|\d+", "?", query["sql"]) for query in captured.captured_queries]


def queries_of_later_turns(count: int, clock: Any) -> list[list[str]]:
    run = many_calls.start(count)
    advance("default")
    resume_hook(Hook.objects.get(run=run, name="approve").token)
    turns = [queries_of(lambda: advance("default"))]
    clock.advance("1h")
    sweep()
    turns.append(queries_of(lambda: advance("default")))
    assert again(run).result == "done"
    return turns


def test_a_turn_makes_as_many_queries_with_50_recorded_calls_of_each_kind_as_with_1(clock):
    few = queries_of_later_turns(1, clock)
    many = queries_of_later_turns(50, clock)
    assert [len(turn) for turn in few] == [len(turn) for turn in many]
    for turn in many:
        journal = [sql for sql in turn if "stephooks_event" in sql and sql.startswith("SELECT")]
        assert len(journal) == 1, journal


@workflow
def many_checkpoints(count: int) -> None:
    for _ in range(count):
        keeps_state()
    step_hook("approve")


@step
def keeps_state() -> None:
    if load_step_checkpoint() is None:
        save_step_checkpoint(1)


def test_recorded_steps_do_not_look_at_their_checkpoints_again():
    queries = []
    for count in (1, 50):
        run = many_checkpoints.start(count)
        advance("default")
        resume_hook(Hook.objects.get(run=run).token)
        queries.append(len(queries_of(lambda: advance("default"))))
    assert queries[0] == queries[1]


@workflow
def many_at_once(kind: str, count: int, tells: bool) -> None:
    wait = {"all": wait_all, "first": wait_first}[kind]
    wait(*(question("approve", on_created=tell if tells else None) for _ in range(count)))


@pytest.mark.parametrize("kind", ["all", "first"])
def test_to_ask_40_at_once_takes_the_queries_of_one_question(kind):
    asking, going_on = [], []
    for count in (1, 40):
        run = many_at_once.start(kind, count, tells=False)
        asking.append(len(queries_of(lambda: advance("default"))))
        for hook in Hook.objects.filter(run=run)[:: 40 if kind == "first" else 1]:
            resume_hook(hook.token)
        going_on.append(len(queries_of(lambda: advance("default"))))
        assert again(run).status == Run.Status.COMPLETED
    # (Where the keys of rows inserted together do not come back, they are inserted one by one.)
    if connection.features.can_return_rows_from_bulk_insert:
        assert asking[0] == asking[1]
    assert going_on[0] == going_on[1]


def test_each_one_told_is_one_write_and_they_are_looked_at_once():
    """The write makes sure that nobody is told twice if the next one's telling is killed."""
    run = many_at_once.start("all", 50, tells=True)
    with CaptureQueriesContext(connection) as captured:
        # Claimed, stored, 49 noted before the next one is told, the last one noted and suspended.
        assert write_transactions(lambda: advance("default")) == 52
    looks = [query for query in captured if re.match(r"SELECT .* FROM .?django_stephooks_hook", query["sql"])]
    assert len(looks) == 2, "behind the last one told, and whether all are pending still"
    assert again(run).status == Run.Status.SUSPENDED


def test_an_answer_in_a_race_is_one_transaction():
    run = many_at_once.start("first", 50, tells=False)
    advance("default")
    hook = Hook.objects.filter(run=run)[30]
    assert write_transactions(lambda: resume_hook(hook.token)) == 1
    assert Hook.objects.filter(run=run, status=Hook.Status.CANCELLED).count() == 49
