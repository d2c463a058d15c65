"""`python -m benchmarks`: measure, print, and write down what was measured."""

from __future__ import annotations

import argparse
import dataclasses
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
django.setup()

from . import costs, database, deadlines, floor, hooks, latency, processes, profiling, report, throughput  # noqa: E402
from .bench import QUICK, Bench, Plan  # noqa: E402

ONCE = {
    "floor": floor.floor,
    "size": costs.size,
    "transactions": costs.transactions,
}
WITH_OTHERS = {
    "throughput": throughput.throughput,
    "latency": latency.latency,
    "hooks": hooks.hooks,
    "sweep": deadlines.sweeping,
    "deadlines": deadlines.deadlines,
}


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add(
        "--quick",
        action="store_true",
        help="a little of everything, to see that it works; figures mean nothing",
    )
    add(
        "--only",
        nargs="+",
        choices=[*ONCE, *WITH_OTHERS],
        metavar="NAME",
        help=", ".join([*ONCE, *WITH_OTHERS]),
    )
    add("--others", type=numbers, help="how many other runs wait, as 0,10000,100000")
    add("--workers", type=numbers, help="with how many workers throughput is measured, as 1,2")
    add("--runs", type=int, help="how many runs throughput is measured with")
    add("--repeat", type=int, help="of how many repetitions the median is taken")
    add("--worker", choices=processes.WORKERS, help="which worker; the fastest there is if not given")
    add("--output", type=Path, help="write the results here; a whole run writes into benchmarks/ and docs/")
    add("--profile", action="store_true", help="only show where a worker's time goes")
    return parser.parse_args()


def measure(bench: Bench, only: list[str]) -> Iterator[report.Row]:
    for name, measurement in ONCE.items():
        if name in only:
            bench.make_others(0)
            yield from measurement(bench)
    chosen = [name for name in WITH_OTHERS if name in only]
    for count in bench.plan.others if chosen else ():
        bench.make_others(count)
        for name in chosen:
            yield from WITH_OTHERS[name](bench)


def main() -> None:
    # Told to stop, it stops its workers too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Stopped."))
    options = arguments()
    changes = {
        name: value
        for name in ("others", "workers", "runs", "repeat")
        if (value := getattr(options, name)) is not None
    }
    plan = dataclasses.replace(QUICK if options.quick else Plan(), **changes)
    whole = not (options.quick or options.only or changes)
    output = options.output or (report.HERE if whole else None)
    began = time.monotonic()
    rows = []
    with (
        processes.own_redis(),
        tempfile.TemporaryDirectory() as scratch,
        database.fresh_database(),
        processes.Producer() as producer,
    ):
        bench = Bench(
            plan=plan,
            producer=producer,
            worker=options.worker or processes.best_worker(),
            log=Path(scratch) / "workers.log",
        )
        if options.profile:
            return profiling.profile(bench)
        about = f"{report.machine()} Worker: {' '.join(processes.WORKERS[bench.worker])}."
        print(about, flush=True)
        for row in measure(bench, options.only or [*ONCE, *WITH_OTHERS]):
            print(row, flush=True)
            rows.append(row)
    print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
    if output:
        report.write(rows, output, about=about)


if __name__ == "__main__":
    main()
