"""What a run costs the database: transactions, and bytes."""

from __future__ import annotations

from collections.abc import Iterator

from django_stephooks import codec

from . import database
from .bench import Bench
from .report import Row
from .workflows import STATE

BYTES_GOAL = 4000
TRANSACTION_GOALS = (4, 3)
TRIES = 50


def transactions(bench: Bench) -> Iterator[Row]:
    """Counted by PostgreSQL: each transaction that writes takes a number. The least of many tries, because
    the whole server shares these numbers."""
    suspend_goal, finish_goal = TRANSACTION_GOALS
    with bench.workers():
        for workflow, what in (("review", "a step"), ("reviewed", "a workflow with one step")):
            tries = [_written(bench, workflow) for _ in range(min(TRIES, bench.plan.single))]
            alone = workflow == "review"
            yield Row(
                measure=f"write transactions, {what}, start → suspended",
                values=[min(suspend for suspend, _ in tries)],
                unit="transactions",
                goal=suspend_goal if alone else None,
            )
            yield Row(
                measure=f"write transactions, {what}, resume → completed",
                values=[min(finish for _, finish in tries)],
                unit="transactions",
                goal=finish_goal if alone else None,
            )


def _written(bench: Bench, workflow: str) -> tuple[int, int]:
    began = _next_transaction()
    after = bench.start(1, workflow=workflow)
    suspended = _next_transaction()
    bench.producer.do("resume", after=after)
    database.wait_until_settled(1, "completed", after=after)
    return suspended - began, _next_transaction() - suspended


def _next_transaction() -> int:
    return int(database.query("SELECT pg_snapshot_xmax(pg_current_snapshot())::text")[0][0])


def size(bench: Bench) -> Iterator[Row]:
    before = database.size()
    with bench.workers():
        database.empty()
        bench.start(bench.plan.runs)
        left = database.size()
    for model in database.TABLES:
        database.query(f"VACUUM FULL {model._meta.db_table}")
    packed = database.size()
    data = len(codec.dumps(STATE))
    for what, total, goal in (
        ("as the engine leaves it", left, BYTES_GOAL),
        ("after VACUUM FULL", packed, None),
    ):
        yield Row(
            measure=f"a suspended run, {what}",
            values=[(total - before) / bench.plan.runs],
            unit="bytes",
            floor=data,
            goal=goal,
        )
