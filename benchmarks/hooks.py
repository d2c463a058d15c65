"""Many hooks in one step: what each costs, and whether the hundredth costs more than the first."""

from __future__ import annotations

from collections.abc import Iterator

from . import database
from .bench import Bench
from .report import Row

GOAL = 5
WAYS = {"ask_in_turn": "one after the other", "ask_at_once": "all at once"}


def hooks(bench: Bench) -> Iterator[Row]:
    after = database.last_run()
    with bench.workers():
        for action, how in WAYS.items():
            bench.producer.do(action, count=2)
            for count in bench.plan.hooks:
                seconds = [bench.producer.do(action, count=count) for _ in range(bench.plan.repeat)]
                yield Row(
                    measure=f"{count} hook{'s' * (count > 1)} in one step, {how}, each",
                    values=[each * 1000 / count for each in seconds],
                    unit="ms",
                    others=bench.others,
                    floor=bench.floors.get("trip" if action == "ask_in_turn" else "commit"),
                    goal=GOAL if count == max(bench.plan.hooks) else None,
                )
            database.forget(after)
