"""Leaves behind what this release leaves waiting: `python -m tests.releases.make 0.1.0`. See README.md."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main(release: str) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    os.environ["STEPHOOKS_TEST_DB"] = "sqlite"
    import django

    django.setup()

    from django.conf import settings
    from django.db import connection

    settings.SCRATCH.mkdir(mode=0o700)
    try:
        connection.creation.create_test_db(verbosity=0, serialize=False)
        settings.STEPHOOKS = {"RUNTIME": "tests.engine.conftest.NobodyComes"}
        make_all(HERE / f"{release}.json")
    finally:
        connection.close()
        shutil.rmtree(settings.SCRATCH, ignore_errors=True)


def make_all(path: Path) -> None:
    """One run of each case, written to this file. The database is empty before."""
    from . import cases, fixtures, workflows

    workflows.weather.bad = True
    try:
        for name, case in cases.CASES.items():
            cases.make(name, case)
    finally:
        workflows.weather.bad = False
    fixtures.dump(path)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("Say which release this is: python -m tests.releases.make 0.1.0")
    main(sys.argv[1])
