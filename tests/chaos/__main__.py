"""One run: `python -m tests.chaos --seconds 60 --seed 4711` (`make chaos SECONDS=60 SEED=4711`).

Everything is in a directory of its own. It is removed if nothing was wrong; else it is kept, with
the diary, the logs and the database's rows, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import django

from demo_project.places import free_port

from .diary import DIRECTORY

WORKERS = ("both", "rq", "tuned")


@dataclass(frozen=True, kw_only=True)
class Options:
    """`skew`: by how many seconds the clocks of two workers are wrong, one each way."""

    directory: Path
    postgres_port: int
    seed: int
    seconds: float
    skew: float
    workers: str
    only: tuple[str, ...] = ()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long there are faults")
    parser.add_argument("--seed", type=int, help="repeats the plan of another run")
    parser.add_argument("--skew", type=float, default=0.8, help="how wrong the clocks of two workers are")
    parser.add_argument("--workers", choices=WORKERS, help="which ones (default: the seed says)")
    parser.add_argument("--only", action="append", default=[], metavar="KIND", help="such faults only")
    parser.add_argument("--keep", action="store_true", help="keep the directory in any case")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(10**6)
    workers = given.workers or random.Random(seed).choice(["both", *WORKERS])
    directory = Path(tempfile.mkdtemp(prefix="stephooks-chaos-"))
    directory.chmod(0o755)  # PostgreSQL has a user of its own
    options = Options(
        directory=directory,
        postgres_port=free_port(0),
        seed=seed,
        seconds=given.seconds,
        skew=given.skew,
        workers=workers,
        only=tuple(given.only),
    )
    print(f"SEED={seed} SECONDS={given.seconds:g}, workers: {workers}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sound = False
    try:
        sound = run(options)
    finally:
        if sound and not given.keep:
            shutil.rmtree(directory, ignore_errors=True)
        else:
            print(f"SEED={seed}. Kept; look again: python -m tests.chaos.checker {directory}", flush=True)
    return 0 if sound else 1


def run(options: Options) -> bool:
    """Whether nothing was wrong."""
    os.environ |= {
        DIRECTORY: str(options.directory),
        "CHAOS_POSTGRES_PORT": str(options.postgres_port),
        "DJANGO_SETTINGS_MODULE": "tests.chaos.settings",
    }
    django.setup()
    from . import storm  # imports models

    storm.Storm(options).run()
    from .checker import check_directory

    return check_directory(options.directory)


if __name__ == "__main__":
    sys.exit(main())
