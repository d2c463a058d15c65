"""How long one person's answer takes on a system that has nothing else to do."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from . import database
from .bench import Bench
from .report import Row

P50_GOAL = 6


def latency(bench: Bench) -> Iterator[Row]:
    with bench.workers():
        after = bench.start(bench.plan.single)
        seconds = bench.producer.do("resume_each", after=after)
        database.forget(after)
    for percent in (50, 95, 99):
        yield Row(
            measure=f"one resume → completed, idle system, p{percent}",
            values=[_percentile(seconds["completed"], percent)],
            unit="ms",
            others=bench.others,
            floor=bench.floors.get("trip") if percent == 50 else None,
            goal=P50_GOAL if percent == 50 else None,
        )
    yield Row(
        measure="the call of resume_hook in it, p50",
        values=[_percentile(seconds["answered"], 50)],
        unit="ms",
        others=bench.others,
        floor=bench.floors.get("commit"),
    )


def _percentile(seconds: list[float], percent: int) -> float:
    return statistics.quantiles(seconds, n=100, method="inclusive")[percent - 1] * 1000
