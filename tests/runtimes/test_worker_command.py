"""`stephooks_worker` in this process: what it works on, its limits, and how it stays known to RQ."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django_rq import settings as django_rq_settings
from django_rq.workers import get_worker
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from rq import Worker
from rq.job import Job

from django_stephooks.models import Run
from django_stephooks.runtimes import limits, rq, worker, working
from django_stephooks.runtimes.base import get_runtime
from django_stephooks.runtimes.limits import Limits
from django_stephooks.runtimes.worker import TurnWorker
from tests.factories import RunFactory

from . import stand_in
from .conftest import waiting

pytestmark = pytest.mark.django_db(transaction=True)  # workers close connections between jobs

handled: list[tuple[str, type[BaseException]]] = []
made_workers: list[TurnWorker] = []


def note_failure(job: Job, kind: type[BaseException], error: BaseException, trace: Any) -> bool:
    handled.append((job.id, kind))
    return False


def burst(*arguments: str) -> None:
    before = signal.getsignal(signal.SIGTERM)
    call_command("stephooks_worker", *arguments, "--burst", verbosity=0, stdout=StringIO())
    assert signal.getsignal(signal.SIGTERM) is before


def turn_worker(*queues: str, **options: Any) -> TurnWorker:
    made = get_worker(*queues, worker_class=TurnWorker, **options)
    assert isinstance(made, TurnWorker)
    made_workers.append(made)
    return made


@pytest.fixture(autouse=True)
def no_connection_is_left() -> Iterator[None]:
    yield
    while made_workers:
        made_workers.pop().connection.close()


def test_works_on_the_queues_that_it_is_given_most_urgent_first(redis: Redis, worked: list[str]) -> None:
    get_runtime().ring("default")
    get_runtime().ring("slow")
    burst("slow", "default")
    assert worked == ["slow", "default"]
    assert waiting("default", "slow") == []


def test_works_on_the_queues_of_the_settings_if_it_is_given_none(
    redis: Redis, worked: list[str], settings: Any
) -> None:
    settings.STEPHOOKS = {"RUNTIME": "rq", "QUEUE": "slow", "MAIL_QUEUE": "default"}
    get_runtime().ring("default")
    get_runtime().ring("slow")
    burst()
    assert worked == ["slow", "default"]


def test_rings_for_ready_runs_whose_bell_redis_has_lost(redis: Redis, worked: list[str]) -> None:
    run = RunFactory()
    stand_in.during.append(lambda queue: Run.objects.all().delete() and None)
    burst()
    assert worked == [run.queue]


def test_other_jobs_run_and_their_failures_go_to_the_exception_handlers(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(django_rq_settings, "EXCEPTION_HANDLERS", [f"{__name__}.note_failure"])
    handled.clear()
    queue = rq.open_queue("default")
    fine = queue.enqueue_call("math.sqrt", args=(4,), result_ttl=60)
    queue.enqueue_call("math.sqrt", args=(-1,), job_id="fails")
    burst()
    assert fine.return_value() == 2
    assert handled == [("fails", ValueError)]


def test_reads_jobs_with_the_serializer_of_their_queue(
    redis: Redis, worked: list[str], settings: Any
) -> None:
    config = {**settings.RQ_QUEUES["default"], "SERIALIZER": "rq.serializers.JSONSerializer"}
    settings.RQ_QUEUES = {"default": config}
    get_runtime().ring("default")
    burst("default")
    assert worked == ["default"]


@pytest.mark.parametrize(
    ("runtime", "arguments", "complaint"),
    [
        ("rq", ["no-such"], "There is no queue 'no-such' in RQ_QUEUES"),
        ("inline", ["default"], "STEPHOOKS['RUNTIME'] is 'inline'"),
        ("rq", ["default", "mixed"], "must have the same SERIALIZER"),
        ("rq", ["--processes", "0"], "'0' is not a whole number of at least 1"),
        ("rq", ["--max-memory", "1.5"], "'1.5' is not a whole number of at least 1"),
    ],
)
def test_says_what_is_wrong_before_it_begins(
    settings: Any, runtime: str, arguments: list[str], complaint: str
) -> None:
    settings.STEPHOOKS = {"RUNTIME": runtime}
    json = {**settings.RQ_QUEUES["default"], "SERIALIZER": "rq.serializers.JSONSerializer"}
    settings.RQ_QUEUES = {**settings.RQ_QUEUES, "mixed": json}
    with pytest.raises(CommandError) as refused:
        call_command("stephooks_worker", *arguments, "--burst")
    assert complaint in str(refused.value)


def test_burst_without_redis_is_an_error(settings: Any) -> None:
    settings.STEPHOOKS = {"RUNTIME": "rq"}
    settings.RQ_QUEUES = {"default": {"UNIX_SOCKET_PATH": "/nowhere/redis.sock", "DB": 0}}
    with pytest.raises(CommandError, match=r"Redis can not be reached \(ConnectionError\)"):
        call_command("stephooks_worker", "--burst", verbosity=0)


# --- limits ---


def test_may_go_on_until_the_last_turn_that_its_limit_allows(redis: Redis) -> None:
    it = turn_worker("default", limits=Limits(max_turns=3))
    rq.let_decide(it)
    runtime = get_runtime()
    assert [runtime.may_go_on("default") for _ in range(3)] == [True, True, False]
    assert it._stop_requested


def test_may_not_go_on_when_it_holds_too_much_memory(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    held = 100 << 20
    monkeypatch.setattr(limits, "memory", lambda: held)
    it = turn_worker("default", limits=Limits(max_memory=200 << 20))
    assert it.may_go_on()
    held = 200 << 20
    assert not it.may_go_on()
    assert it.limits.reached() == "holds 200 MiB of memory"


def test_memory_is_what_the_process_holds() -> None:
    before = limits.memory()
    block = bytearray(64 << 20)
    block[::4096] = b"x" * len(block[::4096])
    assert limits.memory() - before > 32 << 20


def test_a_job_that_makes_no_turn_can_reach_the_limit_of_memory_too(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "memory", lambda: 200 << 20)
    queue = rq.open_queue("default")
    for _ in range(2):
        queue.enqueue_call("math.sqrt", args=(4,))
    work = working.Work(queues=("default",), burst=True, limits=Limits(max_memory=100 << 20))
    assert work.run() is False
    assert len(waiting()) == 1


# --- known to RQ ---


def test_heartbeat_keeps_a_worker_known_whose_job_takes_long(redis: Redis, worked: list[str]) -> None:
    it = turn_worker("default")
    it.register_birth()
    queue = rq.open_queue("default")
    job = queue.enqueue_call(f"{stand_in.__name__}.work", args=("long",), timeout=-1)
    keys: list[str] = []

    def take_long(name: str) -> None:
        (execution,) = job.get_executions()
        keys.extend([it.key, execution.key])
        # Their time has nearly run out.
        for key in keys:
            redis.expire(key, 1)
        redis.zadd(job.started_job_registry.key, {execution.composite_key: 1})
        it.pulse.beat()
        assert min(redis.ttl(key) for key in keys) > 60
        assert job.started_job_registry.get_expired_job_ids() == []
        worked.append("still known")

    stand_in.during.append(take_long)
    it.execute_job(job, queue)
    assert worked == ["long", "still known"]
    # When the job has ended, a heartbeat does not bring anything of it back.
    it.pulse.beat()
    it.pulse.stop()
    assert not redis.exists(keys[1])
    assert job.started_job_registry.get_job_ids() == []


def test_heartbeat_that_can_not_reach_redis_does_not_end_the_pulse(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    it = turn_worker("default", job_monitoring_interval=0.01)
    beats: list[int] = []

    def fail_first() -> None:
        beats.append(1)
        if len(beats) == 1:
            raise RedisConnectionError("redis://secret@host")
        it.pulse.stopped.set()

    monkeypatch.setattr(it.pulse, "beat", fail_first)
    it.pulse._beat_on()
    assert len(beats) == 2
    assert "No heartbeat" in caplog.text
    assert "secret" not in caplog.text


def test_worker_that_redis_has_forgotten_registers_again(redis: Redis) -> None:
    it = turn_worker("default")
    it.register_birth()
    redis.flushall()
    assert Worker.count(queue=rq.open_queue("default")) == 0
    it._stay_registered()
    (known,) = Worker.all(queue=rq.open_queue("default"))
    assert (known.name, known.pid, known.queue_names()) == (it.name, it.pid, ["default"])


# --- without its servers ---


def test_idle_look_into_a_broken_database_is_logged_once(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> str:
        raise OperationalError("password authentication failed for postgres://secret@host")

    it = turn_worker("default")
    monkeypatch.setattr(it.log, "propagate", True)
    with monkeypatch.context() as patch, caplog.at_level(logging.INFO):
        patch.setattr(worker, "write_alias", broken)
        it.ring_for_ready(worker.BELL_SECONDS)
        it.ring_for_ready(worker.BELL_SECONDS)
    assert [record.getMessage() for record in caplog.records] == [
        f"Worker {it.name}: the database can not be asked (OperationalError)"
    ]
    it.ring_for_ready(worker.BELL_SECONDS)
    assert it._saw_database


def test_plain_rqworker_is_asked_over_redis_whether_it_was_told_to_stop(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = rq.open_queue("default").enqueue_call("math.sqrt", args=(4,))
    job.worker_name = "plain"
    monkeypatch.setattr(rq, "get_current_job", lambda: job)
    runtime = get_runtime()
    assert runtime.may_go_on("default")
    redis.hset("rq:worker:plain", "shutdown_requested_date", "now")
    rq._process().ask_worker_at = 0
    assert not runtime.may_go_on("default")
    # Redis going away is no reason to stop.
    monkeypatch.setattr(job.connection, "hexists", _raise_connection_error)
    rq._process().ask_worker_at = 0
    assert runtime.may_go_on("default")


def _raise_connection_error(*args: Any) -> None:
    raise RedisConnectionError
