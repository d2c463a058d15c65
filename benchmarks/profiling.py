"""Where a worker's time goes: cProfile of one that is alone with what is ready, RQ left out."""

from __future__ import annotations

import cProfile
import pstats

from django_stephooks.engine.worker import work
from django_stephooks.models import Run

from . import database
from .bench import Bench
from .processes import QUEUE

SHOWN = 35


def profile(bench: Bench) -> None:
    count = bench.plan.runs
    for unseen in (True, False):  # the first round only warms up
        after = database.last_run()
        bench.producer.do("start", count=count, workflow="review", silent=True)
        _drain(f"start → suspended, {count} runs", silent=unseen)
        bench.producer.do("resume", after=after, silent=True)
        _drain(f"resume → completed, {count} runs", silent=unseen)
        assert Run.objects.filter(pk__gt=after, status="completed").count() == count


def _drain(title: str, *, silent: bool) -> None:
    database.tidy()
    profiler = cProfile.Profile()
    profiler.enable()
    while work(QUEUE):
        pass
    profiler.disable()
    if not silent:
        for order in ("tottime", "cumtime"):
            print(f"\n=== {title}, by {order}")
            pstats.Stats(profiler).strip_dirs().sort_stats(order).print_stats(SHOWN)
