"""The desk under django-unfold, which replaces the admin's templates and its site."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_reviewer_can_work_under_unfold(tmp_path: Path) -> None:
    pytest.importorskip("unfold", exc_type=ImportError)
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.admin.unfold_settings",
        "STEPHOOKS_TEST_DB": "sqlite",
        "STEPHOOKS_TEST_DB_NAME": str(tmp_path / "unfold.sqlite3"),
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-m", "tests.admin.unfold_visit"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
