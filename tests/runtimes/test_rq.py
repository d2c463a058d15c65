"""The bell over RQ: one waiting job per queue, none lost, and a broken Redis is nobody's error."""

from __future__ import annotations

import logging
import os
import time
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection, transaction
from django_rq.queues import get_queue
from redis import Redis
from rq import SimpleWorker, Worker
from rq.job import Job
from rq.serializers import JSONSerializer

from demo_project.embedded_redis import EmbeddedRedis
from django_stephooks.runtimes import base, rq

from . import stand_in
from .conftest import waiting, work_off

ODD_NAMES = ["späť", "a queue", "a:b/c", "名前", "x" * 200, "'; --", "%s{}"]


@pytest.fixture
def bell(redis: Redis) -> rq.RQRuntime:
    return rq.RQRuntime()


def test_many_rings_before_a_worker_comes_make_one_job(bell: rq.RQRuntime) -> None:
    for _ in range(20):
        bell.ring("default")
    assert len(waiting()) == 1


def test_each_queue_has_a_bell_of_its_own(bell: rq.RQRuntime) -> None:
    bell.ring("default")
    bell.ring("slow")
    assert len(waiting("default")) == len(waiting("slow")) == 1


def test_worker_is_told_the_queue(bell: rq.RQRuntime, worked: list[str]) -> None:
    bell.ring("slow")
    work_off(get_queue("slow", connection=rq.open_queue("slow").connection))
    assert worked == ["slow"]


def test_ring_after_the_pick_up_brings_another_job(bell: rq.RQRuntime) -> None:
    bell.ring("default")
    rq.open_queue("default").pop_job_id()
    bell.picked_up("default")
    bell.ring("default")
    assert len(waiting()) == 1


def test_ring_before_the_pick_up_is_answered_by_the_waiting_job(
    bell: rq.RQRuntime, worked: list[str]
) -> None:
    ready: list[str] = ["first"]
    seen: list[list[str]] = []

    def look(queue: str) -> None:
        bell.picked_up(queue)
        seen.append(list(ready))

    stand_in.during.append(look)
    bell.ring("default")
    ready.append("second")
    bell.ring("default")
    work_off(rq.open_queue("default"))
    assert seen == [["first", "second"]]


def test_ring_during_the_work_brings_another_look(bell: rq.RQRuntime, worked: list[str]) -> None:
    def start_another(queue: str) -> None:
        bell.picked_up(queue)
        if len(worked) == 1:
            bell.ring(queue)

    stand_in.during.append(start_another)
    bell.ring("default")
    work_off(rq.open_queue("default"))
    assert worked == ["default", "default"]


def test_fifty_sweeps_without_workers_pile_nothing_up(bell: rq.RQRuntime) -> None:
    for _ in range(50):
        bell.ring_again("default")
    assert len(waiting()) == 1


def test_fifty_sweeps_with_a_busy_worker_leave_one_job(bell: rq.RQRuntime) -> None:
    bell.ring("default")
    rq.open_queue("default").pop_job_id()
    bell.picked_up("default")
    for _ in range(50):
        bell.ring_again("default")
    assert len(waiting()) == 1


def test_ring_again_replaces_a_job_that_was_lost(bell: rq.RQRuntime) -> None:
    bell.ring("default")
    # A worker on two queues that dies between popping a job and starting it.
    lost = rq.open_queue("default").pop_job_id()
    bell.ring("default")
    assert waiting() == []
    bell.ring_again("default")
    assert len(waiting()) == 1
    assert waiting() != [lost]


def test_ring_again_heals_a_crash_between_key_and_push(
    bell: rq.RQRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*args: Any) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(rq, "_push", crash)
        with pytest.raises(SystemExit):
            bell.ring("default")
    bell.ring("default")
    assert waiting() == []
    bell.ring_again("default")
    assert len(waiting()) == 1


def test_ring_works_after_flushall(bell: rq.RQRuntime, redis: Redis) -> None:
    bell.ring("default")
    redis.flushall()
    bell.ring("default")
    assert len(waiting()) == 1


def test_ring_again_works_after_flushall(bell: rq.RQRuntime, redis: Redis) -> None:
    bell.ring("default")
    redis.flushall()
    bell.ring_again("default")
    assert len(waiting()) == 1


def test_ring_works_after_redis_forgot_its_scripts(bell: rq.RQRuntime, redis: Redis) -> None:
    bell.ring("default")
    redis.flushall()
    redis.script_flush()
    bell.ring("default")
    assert len(waiting()) == 1


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_queue_names(redis: Redis, settings: Any, worked: list[str], name: str) -> None:
    settings.RQ_QUEUES = {**settings.RQ_QUEUES, name: settings.RQ_QUEUES["default"]}
    runtime = rq.RQRuntime()
    runtime.ring(name)
    runtime.ring_again(name)
    assert len(waiting(name)) == 1
    work_off(rq.open_queue(name))
    runtime.picked_up(name)
    assert worked == [name]
    assert redis.keys("stephooks:*") == []


def test_job_ids_never_repeat(bell: rq.RQRuntime) -> None:
    ids = set()
    for _ in range(30):
        bell.ring("default")
        ids.update(waiting())
        rq.open_queue("default").pop_job_id()
        bell.picked_up("default")
    assert len(ids) == 30


def test_push_that_redis_already_has_is_no_error(bell: rq.RQRuntime) -> None:
    queue = rq.open_queue("default")
    rq._push(queue, "stephooks-bell-twice-1")
    rq._push(queue, "stephooks-bell-twice-1")
    assert waiting() == ["stephooks-bell-twice-1"]


def test_job_says_nothing_but_the_queue(bell: rq.RQRuntime, redis: Redis) -> None:
    bell.ring("default")
    job = Job.fetch(waiting()[0], connection=redis)
    assert job.args == ("default",)
    assert job.kwargs == {}
    assert job.func_name == "django_stephooks.runtimes.rq.job"
    assert job.description == "Work on the ready runs of queue default"
    assert job.timeout == -1


def test_nothing_of_a_finished_job_stays_in_redis(
    bell: rq.RQRuntime, redis: Redis, worked: list[str]
) -> None:
    bell.ring("default")
    work_off(rq.open_queue("default"))
    assert redis.keys("rq:job:*") == []


def test_job_with_arguments_of_another_version_still_works(worked: list[str]) -> None:
    rq.job("default", "later", more=1)
    rq.sweep_job("later", more=1)
    assert worked == ["default"]
    assert stand_in.swept == [1]


def test_queue_with_the_json_serializer(redis: Redis, settings: Any, worked: list[str]) -> None:
    settings.RQ_QUEUES = {
        "default": {**settings.RQ_QUEUES["default"], "SERIALIZER": "rq.serializers.JSONSerializer"}
    }
    rq.RQRuntime().ring("default")
    queue = rq.open_queue("default")
    assert queue.serializer is JSONSerializer
    SimpleWorker([queue], connection=queue.connection, serializer=JSONSerializer).work(
        burst=True, logging_level="ERROR"
    )
    assert worked == ["default"]


def test_forking_worker_runs_the_job_and_takes_the_bell(
    bell: rq.RQRuntime, redis: Redis, worked: list[str]
) -> None:
    parent = os.getpid()

    def note(queue: str) -> None:
        bell.picked_up(queue)
        rq.open_queue(queue).connection.set("child", os.getpid())

    stand_in.during.append(note)
    bell.ring("default")
    queue = rq.open_queue("default")
    Worker([queue], connection=redis).work(burst=True, logging_level="ERROR")
    assert int(redis.get("child")) != parent
    assert redis.get("stephooks:bell:default") is None
    # The parent's own connection was not harmed by the child's.
    bell.ring("default")
    assert len(waiting()) == 1


def test_child_process_has_its_own_connection_and_ids(bell: rq.RQRuntime) -> None:
    bell.ring("default")
    before = rq._process()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            bell.picked_up("default")
            bell.ring("default")
            answer = "same" if rq._process() is before else waiting()[-1]
            os.write(writing, answer.encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    assert answer.startswith("stephooks-bell-")
    assert answer.split("-")[2] != waiting()[0].split("-")[2]
    assert len(waiting()) == 2


def test_two_hundred_rings_use_one_connection(bell: rq.RQRuntime, redis: Redis) -> None:
    bell.ring("default")
    before = len(redis.client_list())
    for _ in range(200):
        bell.picked_up("default")
        bell.ring("default")
        bell.ring_again("slow")
    assert len(redis.client_list()) == before


def test_changed_settings_are_seen(bell: rq.RQRuntime, redis: Redis, settings: Any) -> None:
    bell.ring("default")
    settings.RQ_QUEUES = {"default": {**settings.RQ_QUEUES["default"], "DB": 1}}
    bell.ring("default")
    assert rq.open_queue("default").connection.connection_pool.connection_kwargs["db"] == 1
    assert len(waiting()) == 1


# --- Redis is away ---


@pytest.fixture
def no_redis(settings: Any, tmp_path: Any) -> None:
    settings.STEPHOOKS = {"RUNTIME": "rq"}
    settings.RQ_QUEUES = {
        "default": {"URL": "redis://:sesame@127.0.0.1:1/0"},
        "slow": {"UNIX_SOCKET_PATH": str(tmp_path / "none.sock"), "DB": 0},
    }


@pytest.mark.parametrize("queue", ["default", "slow"])
def test_nobody_sees_that_redis_is_away(no_redis: None, caplog: pytest.LogCaptureFixture, queue: str) -> None:
    runtime = rq.RQRuntime()
    runtime.ring(queue)
    runtime.ring_again(queue)
    runtime.picked_up(queue)
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    assert "sesame" not in caplog.text


def test_redis_is_left_alone_for_a_while_after_an_error(
    no_redis: None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(rq, "time", SimpleNamespace(monotonic=lambda: now))
    runtime = rq.RQRuntime()
    for _ in range(10):
        runtime.ring("default")
        runtime.ring_again("default")
    assert len(caplog.records) == 1
    now += 1.5
    runtime.ring("default")
    assert len(caplog.records) == 2


def test_the_longer_an_error_took_the_longer_redis_is_left_alone(
    no_redis: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter([0.0, 2.0])
    monkeypatch.setattr(rq, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    rq.RQRuntime().ring("default")
    assert rq._process().quiet_until == {"default": 22.0}


def test_the_failure_of_one_redis_does_not_silence_another(
    redis: Redis, settings: Any, tmp_path: Any
) -> None:
    away = {"UNIX_SOCKET_PATH": str(tmp_path / "none.sock"), "DB": 0}
    settings.RQ_QUEUES = {**settings.RQ_QUEUES, "slow": away}
    runtime = rq.RQRuntime()
    runtime.ring("slow")
    runtime.ring("default")
    assert len(waiting("default")) == 1


def test_connection_gives_up_soon_and_does_not_sleep_between_tries(redis: Redis) -> None:
    options = rq.open_queue("default").connection.connection_pool.connection_kwargs
    assert options["socket_connect_timeout"] <= 2
    assert options["socket_timeout"] <= 2
    assert options["retry"].get_retries() == 1
    assert options["retry"]._backoff.compute(1) == 0


def test_rings_again_once_redis_is_back(own_redis: EmbeddedRedis) -> None:
    runtime = rq.RQRuntime()
    runtime.ring("default")
    own_redis.stop()
    runtime.ring("default")
    rq._process().quiet_until.clear()
    with EmbeddedRedis(socket_path=own_redis.socket_path):
        # Over the connection of before, which the server's end closed.
        runtime.ring("default")
        assert len(waiting()) == 1


def test_server_that_closed_an_idle_connection_costs_no_ring(
    bell: rq.RQRuntime, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    bell.ring("default")
    bell.picked_up("default")
    for client in redis.client_list():
        if client["id"] != str(redis.client_id()):
            redis.client_kill_filter(_id=client["id"])
    bell.ring("default")
    assert len(waiting()) == 2
    assert caplog.records == []


def test_hanging_redis_is_given_up(bell: rq.RQRuntime, redis: Redis, monkeypatch: Any) -> None:
    monkeypatch.setattr(rq, "ANSWER_SECONDS", 0.1)
    bell.ring("slow")
    redis.execute_command("CLIENT", "PAUSE", "1000", "WRITE")
    bell.ring("default")
    redis.execute_command("CLIENT", "UNPAUSE")
    assert "default" in rq._process().quiet_until


def test_readonly_replica_is_an_error_like_any_other(bell: rq.RQRuntime, redis: Redis) -> None:
    redis.replicaof("127.0.0.1", "1")
    try:
        bell.ring("default")
    finally:
        redis.replicaof("NO", "ONE")
    assert "default" in rq._process().quiet_until


def test_unknown_queue_is_logged_and_named(bell: rq.RQRuntime, caplog: pytest.LogCaptureFixture) -> None:
    bell.ring("nowhere")
    assert caplog.records[0].levelno == logging.ERROR
    assert "There is no queue 'nowhere' in RQ_QUEUES. It has: 'default', 'slow'." in caplog.text


# --- kinds of connection: built as django-rq builds them ---


@pytest.mark.parametrize(
    "config",
    [
        {"HOST": "example.com", "PORT": 6379, "DB": 2, "PASSWORD": "p", "USERNAME": "u"},
        {"URL": "redis://example.com:6379/2"},
        {"URL": "rediss://example.com:6379/2"},
        {"UNIX_SOCKET_PATH": "/run/redis.sock", "DB": 2},
        {"SENTINELS": [("example.com", 26379)], "MASTER_NAME": "m", "DB": 2, "SOCKET_TIMEOUT": 9},
    ],
    ids=lambda config: next(iter(config)),
)
def test_every_kind_of_connection_gives_up_soon(config: dict[str, Any]) -> None:
    client = rq.connect(config)
    options = client.connection_pool.connection_kwargs
    assert options["db"] == 2
    assert options["socket_timeout"] == rq.ANSWER_SECONDS
    connection = client.connection_pool.make_connection()
    assert connection.socket_connect_timeout == rq.CONNECT_SECONDS
    assert connection.retry.get_retries() == 1


def test_client_of_the_projects_cache_is_left_as_it_is(settings: Any, redis: Redis) -> None:
    class Cache:
        _client = redis

    before = dict(redis.connection_pool.connection_kwargs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("django.core.cache.caches", {"shared": Cache})
        assert rq.connect({"USE_REDIS_CACHE": "shared"}) is redis
    assert redis.connection_pool.connection_kwargs == before


# --- a queue that RQ runs in the calling process ---


def test_queue_that_is_not_async_needs_no_redis(
    no_redis: None, settings: Any, worked: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    settings.RQ_QUEUES["default"]["ASYNC"] = False
    runtime = rq.RQRuntime()
    stand_in.during.append(lambda queue: runtime.picked_up(queue))
    runtime.ring("default")
    runtime.ring_again("default")
    assert worked == ["default", "default"]
    assert caplog.records == []


# --- after commit ---


@pytest.mark.django_db(transaction=True)
def test_rollback_pushes_nothing(redis: Redis) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        base.ring_after_commit("default", using="default")
        raise ZeroDivisionError
    assert waiting() == []


@pytest.mark.django_db(transaction=True)
def test_commit_pushes_only_when_it_is_done(redis: Redis) -> None:
    with transaction.atomic():
        base.ring_after_commit("default", using="default")
        assert waiting() == []
    assert len(waiting()) == 1


@pytest.mark.django_db(transaction=True)
def test_django_rqs_own_commit_mode_is_not_waited_for(redis: Redis) -> None:
    """It looks at the database "default", which may be in a transaction of its own."""
    runtime = rq.RQRuntime()
    with transaction.atomic():
        runtime.ring("default")
        assert len(waiting()) == 1


@pytest.mark.django_db(transaction=True)
def test_commit_while_redis_is_away_runs_the_callbacks_that_follow(no_redis: None) -> None:
    followed = []
    with transaction.atomic():
        base.ring_after_commit("default", using="default")
        transaction.on_commit(lambda: followed.append(True))
    assert followed == [True]


@pytest.mark.django_db(transaction=True)
def test_one_transaction_rings_once_for_each_queue(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rung: list[str] = []
    settings.STEPHOOKS = {"RUNTIME": "inline"}
    monkeypatch.setattr(base.get_runtime(), "ring", rung.append)
    for _ in range(2):
        with transaction.atomic():
            for _ in range(5):
                with transaction.atomic():
                    base.ring_after_commit("default", using="default")
                base.ring_after_commit("slow", using="default")
    assert rung == ["default", "slow"] * 2


@pytest.mark.django_db(transaction=True)
def test_bell_of_a_savepoint_that_is_rolled_back_does_not_stand_for_a_later_one(
    redis: Redis,
) -> None:
    with transaction.atomic():
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            base.ring_after_commit("default", using="default")
            raise ZeroDivisionError
        base.ring_after_commit("default", using="default")
    assert len(waiting()) == 1


@pytest.mark.django_db(transaction=True)
def test_bell_of_an_inner_savepoint_does_not_stand_for_the_outer_one(redis: Redis) -> None:
    with transaction.atomic():
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            with transaction.atomic():
                base.ring_after_commit("default", using="default")
            base.ring_after_commit("slow", using="default")
            raise ZeroDivisionError
        base.ring_after_commit("slow", using="default")
    assert waiting("default") == []
    assert len(waiting("slow")) == 1


@pytest.mark.django_db(transaction=True)
def test_error_in_the_bell_is_logged_and_not_raised(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(self: object, queue: str) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(rq.RQRuntime, "_ring", broken)
    base.ring_after_commit("default", using="default")
    assert "The bell for queue 'default' could not be rung" in caplog.text


# --- the database connection of a worker ---


@pytest.mark.django_db(transaction=True)
def test_job_gets_a_working_database_connection_after_the_server_dropped_it(
    worked: list[str],
) -> None:
    def ask(queue: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")

    stand_in.during.append(ask)
    rq.job("default")
    connection.ensure_connection()
    connection.errors_occurred = True
    connection.is_usable = lambda: False  # type: ignore[method-assign]
    try:
        rq.job("default")
    finally:
        del connection.is_usable
    assert worked == ["default", "default"]


def test_connections_are_tidied_even_if_the_work_fails(
    worked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = []
    monkeypatch.setattr(rq, "close_old_connections", lambda: closed.append(time.time()))

    def fail(queue: str) -> None:
        raise ZeroDivisionError

    stand_in.during.append(fail)
    with pytest.raises(ZeroDivisionError):
        rq.job("default")
    assert len(closed) == 2
