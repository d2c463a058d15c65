"""`stephooks_worker` as real processes: told to stop, killed, cut off from Redis and from the database."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from contextlib import suppress

import pytest
from django.db import connection

from demo_project.embedded_redis import EmbeddedRedis
from demo_project.process_tree import children_of
from django_stephooks.engine.worker import work
from django_stephooks.models import Run

from . import workflows
from .processes import Command
from .sites import FORKING, SIMPLE, Site, answer

S = Run.Status
OURS = ("stephooks_worker", "default")
START = {
    "ours": OURS,
    "rqworker": ("rqworker", "default", "--worker-class", SIMPLE),
    "forking rqworker": ("rqworker", "default", "--worker-class", FORKING),
}


def tell(command: Command, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(command.process.pid, number)


def has_ended(command: Command) -> Callable[[], bool]:
    return lambda: command.process.poll() is not None


@pytest.mark.parametrize("command", START)
def test_worker_told_to_stop_finishes_its_turn_and_leaves_the_rest_of_the_batch(
    site: Site, command: str
) -> None:
    worker = site.command(*START[command])
    at_hand = workflows.typeset_draft.start(site.desk)
    site.until_noted("at go")
    rest = [workflows.draft.start(site.desk) for _ in range(3)]
    tell(worker, signal.SIGTERM)
    site.until(lambda: "warm shut down" in worker.log.read_text())
    site.open_gate("go")
    site.until(has_ended(worker))

    assert worker.process.returncode == 0
    at_hand.refresh_from_db()
    assert (at_hand.status, at_hand.turn, at_hand.result) == (S.COMPLETED, 1, ["a draft", "set"])
    assert set(Run.objects.filter(pk__in=[run.pk for run in rest]).values_list("status", "turn")) == {
        (S.PENDING, 0)
    }
    # No sweep is needed: the bell was rung for whoever comes next.
    assert len(site.queue().job_ids) == 1


@pytest.mark.parametrize(
    "patience", [[], ["--grace", "0.1"]], ids=["told twice", "told once, with little grace"]
)
def test_worker_that_shall_not_finish_its_turn_hands_it_back_at_once(site: Site, patience: list[str]) -> None:
    worker = site.command(*OURS, *patience)
    run = workflows.typeset_draft.start(site.desk)
    site.until_noted("at go")
    tell(worker, signal.SIGTERM)

    def has_ended_when_told_again() -> bool:
        if not patience:
            tell(worker, signal.SIGTERM)
        return worker.process.poll() is not None

    site.until(has_ended_when_told_again)
    assert worker.process.returncode == 0
    run.refresh_from_db()
    assert (run.status, run.turn, run.recoveries) == (S.PENDING, 1, 0)
    assert len(site.queue().job_ids) == 1

    site.open_gate("go")
    work("default")
    run.refresh_from_db()
    assert (run.status, run.result) == (S.COMPLETED, ["a draft", "set"])
    assert site.notes() == ["draft", "typeset", "at go", "typeset", "at go"]


def test_dead_process_is_replaced_and_all_end_with_their_parent(site: Site) -> None:
    parent = site.command(*OURS, "--processes", "2")
    site.until(lambda: parent.log.read_text().count("Listening on") == 2)
    first = parent.work_horses()
    assert len(first) == 2
    os.kill(first[0], signal.SIGKILL)
    site.until(lambda: parent.log.read_text().count("Listening on") == 3)
    second = parent.work_horses()
    assert len(second) == 2
    assert set(first) & set(second) == {first[1]}
    assert "another one takes its place" in parent.log.read_text()

    run = workflows.typeset_draft.start(site.desk)
    site.until_noted("at go")
    parent.kill_parent()
    site.until(lambda: "is gone" in parent.log.read_text())
    site.open_gate("go")
    # They are told to stop, not killed: the turn at hand is finished.
    site.until_status(run, S.COMPLETED)
    assert run.turn == 1
    site.until(lambda: not any(map(_is_alive, second)))


def test_signal_ends_all_processes_and_a_process_at_its_limit_is_replaced(site: Site) -> None:
    parent = site.command(*OURS, "--processes", "2", "--max-turns", "1")
    runs = [workflows.say_who.start(site.desk) for _ in range(3)]
    pids = {site.until_status(run, S.COMPLETED).result for run in runs}
    assert len(pids) == 3
    assert parent.process.pid not in pids
    tell(parent, signal.SIGINT)
    site.until(has_ended(parent))
    assert parent.process.returncode == 0
    assert children_of(parent.process.pid) == []
    assert not any(map(_is_alive, pids))


def test_worker_finds_a_run_whose_bell_was_lost_and_outlives_an_outage_of_redis(site: Site) -> None:
    worker = site.command(*OURS)
    site.until(lambda: "Listening on" in worker.log.read_text())
    # The job was popped, and its worker killed before it could say so: rings are held back.
    site.redis.set("stephooks:bell:default", "stephooks-bell-gone-1")
    waiting = workflows.publish_reviewed.start(site.desk)
    assert site.queue().job_ids == []
    site.until_status(waiting, S.SUSPENDED)

    site.server.stop()
    answer(waiting, "yes")
    site.until(lambda: worker.log.read_text().count("can not reach Redis") >= 2)
    site.server = EmbeddedRedis(socket_path=site.socket_path).start()
    site.until_status(waiting, S.COMPLETED)
    assert waiting.result == ["a draft", "yes"]
    assert worker.process.poll() is None
    tell(worker, signal.SIGTERM)
    site.until(has_ended(worker))
    assert worker.process.returncode == 0


@pytest.mark.skipif(connection.vendor != "postgresql", reason="only PostgreSQL can end a connection by SQL")
def test_worker_outlives_the_end_of_its_database_connections(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPHOOKS_TEST_CONN_MAX_AGE", "600")
    worker = site.command(*OURS)
    run = workflows.publish_reviewed.start(site.desk)
    site.until_status(run, S.SUSPENDED)
    assert _end_other_connections() == 1  # it kept its connection
    answer(run, "yes")
    site.until_status(run, S.COMPLETED)

    # In the middle of a turn: the turn is lost, and made good.
    run = workflows.typeset_draft.start(site.desk)
    site.until_noted("at go")
    _end_other_connections()
    site.open_gate("go")
    site.sweep_from_now_on()
    site.until_status(run, S.COMPLETED)
    assert run.result == ["a draft", "set"]
    assert worker.process.poll() is None


def _end_other_connections() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return len(cursor.fetchall())


def _is_alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return not _is_zombie(pid)
    return False


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False
