"""What somebody can do who writes to Redis; the page about security says no less, and no more."""

from __future__ import annotations

import json
import pickle
import zlib
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from redis import Redis
from rq import SimpleWorker

from django_stephooks import resume_hook
from django_stephooks.models import Hook, Run
from django_stephooks.runtimes import rq
from django_stephooks.runtimes.scheduler import SweepScheduler
from django_stephooks.services.sweep import sweep
from tests.factories import HookFactory

from . import written_to_redis

WRITTEN = f"{written_to_redis.__name__}.call"
SERIALIZERS = {"pickle": "rq.serializers.DefaultSerializer", "json": "rq.serializers.JSONSerializer"}


@pytest.fixture(autouse=True)
def nothing_called() -> None:
    written_to_redis.called.clear()


@pytest.fixture
def redis(redis_socket: str, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Redis]:
    settings.STEPHOOKS = {**settings.STEPHOOKS, "RUNTIME": "rq"}
    monkeypatch.setattr(rq, "_here", rq._Process())
    with Redis(unix_socket_path=redis_socket) as client:
        client.flushall()
        yield client
    for _, used in rq._here._clients:
        used.close()


def written_by_hand(redis: Redis, data: bytes, **fields: Any) -> None:
    """A job in the queue, put there without RQ."""
    fields = {"data": zlib.compress(data), "created_at": "2026-11-30T10:00:00.000000Z", **fields}
    redis.hset("rq:job:evil", mapping={"status": "queued", "origin": "default", **fields})
    redis.rpush("rq:queue:default", "evil")


@pytest.mark.parametrize("serializer", SERIALIZERS)
def test_whoever_writes_to_redis_says_what_a_worker_calls(
    redis: Redis, settings: Any, serializer: str
) -> None:
    settings.RQ_QUEUES = {"default": {**settings.RQ_QUEUES["default"], "SERIALIZER": SERIALIZERS[serializer]}}
    job = (WRITTEN, None, ["called"], {})
    written_by_hand(redis, pickle.dumps(job) if serializer == "pickle" else json.dumps(job).encode())

    queue = rq.open_queue("default")
    SimpleWorker([queue], connection=redis, serializer=queue.serializer).work(
        burst=True, logging_level="ERROR"
    )

    assert written_to_redis.called == ["called"]


@pytest.mark.django_db
def test_whoever_writes_to_redis_runs_code_in_the_scheduler(redis: Redis) -> None:
    written_by_hand(redis, b"", meta=pickle.dumps(written_to_redis.Unpickled()))
    redis.zadd("rq:scheduler:scheduled_jobs", {"evil": 1})

    queue = rq.open_queue("default")
    SweepScheduler(queue_name="default", queue=queue, connection=redis, sweep_interval=5).run(burst=True)

    assert "unpickled" in written_to_redis.called


@pytest.mark.django_db
@pytest.mark.parametrize(
    "fields",
    [
        {"meta": pickle.dumps(None)},
        {"meta": pickle.dumps({"repeat": "often"})},
        {"meta": pickle.dumps({"interval": "x"})},
        {"meta": pickle.dumps({"cron_string": "every now and then"})},
        {"meta": b"\xff"},
        {"origin": "nowhere"},
        {"created_at": "never"},
        {"timeout": "x"},
    ],
    ids=lambda fields: str(next(iter(fields.items()))),
)
def test_no_scheduled_job_keeps_the_sweep_from_coming(redis: Redis, fields: dict[str, Any]) -> None:
    written_by_hand(redis, pickle.dumps((WRITTEN, None, ["called"], {})), **fields)
    redis.delete("rq:queue:default")
    redis.zadd("rq:scheduler:scheduled_jobs", {"evil": 1, b"\xff": 2})
    queue = rq.open_queue("default")
    scheduler = SweepScheduler(queue_name="default", queue=queue, connection=redis, sweep_interval=5)

    scheduler.run(burst=True)

    assert b"stephooks-sweep" in redis.lrange("rq:queue:default", 0, -1)


@pytest.mark.django_db(transaction=True)
def test_a_bell_that_somebody_made_silent_rings_again_with_the_sweep(redis: Redis) -> None:
    hook = HookFactory()
    redis.set("stephooks:bell:default", "not a job")
    resume_hook(hook.token, {"approved": True})
    assert redis.llen("rq:queue:default") == 0
    assert Hook.objects.get().status == Hook.Status.RECEIVED

    sweep(now=timezone.now() + timedelta(minutes=1))
    assert redis.llen("rq:queue:default") == 1
    SimpleWorker([rq.open_queue("default")], connection=redis).work(burst=True, logging_level="ERROR")
    assert Run.objects.get().status == Run.Status.COMPLETED
