"""`make bench` measures what it says it does. How long anything takes is nobody's business here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection

ROOT = Path(__file__).parents[2]
ONCE = [
    "floor: RQ jobs that do nothing, SimpleWorker",
    "floor: one PostgreSQL commit",
    "a suspended run, as the engine leaves it",
]
WITH_OTHERS = [
    "start → suspended, 1 worker",
    "resume → completed, 2 workers",
    "start → suspended, 1 worker, stored before",
    "one resume → completed, idle system, p99",
    "5 hooks in one step, one after the other, each",
    "5 hooks in one step, all at once, each",
    "the sweep with nothing to do",
    "50 deadlines at one moment, last run ended late by",
]


def benchmarks(*arguments: str, redis_socket: str) -> subprocess.CompletedProcess[str]:
    name = f"{connection.settings_dict['NAME']}_bench"
    environment = {
        **os.environ,
        "STEPHOOKS_BENCH_DATABASE": name,
        "STEPHOOKS_BENCH_REDIS": f"unix://{redis_socket}?db=9",
    }
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)


@pytest.fixture(autouse=True)
def on_postgres() -> None:
    if os.environ.get("STEPHOOKS_TEST_DB") != "postgres":
        pytest.skip("the benchmarks are of PostgreSQL only; they are tried in its cell of the matrix")


@pytest.mark.django_db(transaction=True)
def test_a_quick_run_measures_everything_and_writes_it_down(redis_socket: str, tmp_path: Path):
    done = benchmarks("--quick", "--output", str(tmp_path), redis_socket=redis_socket)
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads((tmp_path / "results.json").read_text())}
    assert {*ONCE, *(f"{name}, 300 others waiting" for name in WITH_OTHERS)} <= rows.keys()
    for row in rows.values():
        assert row.keys() == {"name", "value", "unit", "floor", "goal", "met"}
        assert row["value"] > 0, row
        assert (row["met"] is None) == (row["goal"] is None), row
    table = (tmp_path / "results.md").read_text()
    for measure in [*ONCE, *WITH_OTHERS]:
        assert f"| {measure} |" in table


@pytest.mark.django_db(transaction=True)
def test_a_part_of_it_leaves_the_results_of_the_whole_alone(redis_socket: str):
    kept = [ROOT / "benchmarks" / "results.json", ROOT / "docs" / "explanation" / "performance.md"]
    before = [path.stat().st_mtime_ns for path in kept]
    done = benchmarks("--quick", "--only", "transactions", redis_socket=redis_socket)
    assert done.returncode == 0, done.stderr
    assert "write transactions" in done.stdout
    assert [path.stat().st_mtime_ns for path in kept] == before


@pytest.mark.django_db(transaction=True)
def test_a_redis_database_that_is_in_use_is_not_emptied(redis_socket: str):
    from redis import Redis

    client = Redis(unix_socket_path=redis_socket, db=9)
    client.set("somebody's", "data")
    try:
        done = benchmarks("--quick", redis_socket=redis_socket)
        assert done.returncode != 0
        assert "is in use" in done.stderr
        assert client.get("somebody's") == b"data"
    finally:
        client.flushdb()
