"""Streams in Redis: bounded, private, and of no consequence when Redis is away."""

from __future__ import annotations

from typing import Any

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from demo_project.embedded_redis import EmbeddedRedis
from django_stephooks import cancel_run
from django_stephooks.models import Chunk
from django_stephooks.runtimes import rq
from django_stephooks.runtimes.base import get_runtime
from django_stephooks.runtimes.streams import Entry, StreamDown, StreamLost
from django_stephooks.services.streams import Watch
from django_stephooks.testing import chunks
from tests.factories import RunFactory

from . import workflows
from .seeing import answered, got, sent, started, turn

pytestmark = pytest.mark.django_db(transaction=True)

HOUR, WEEK = 3600, 7 * 24 * 3600


def key_of(run: Any) -> str:
    return f"stephooks:stream:{run.public_id}"


def test_a_stream_ends_some_time_after_its_run_and_sooner_than_that_of_one_that_waits(redis: Redis) -> None:
    workflows.says.append(["a"])
    run = started("speaks_then_asks")
    assert HOUR < redis.ttl(key_of(run)) <= WEEK

    run = answered(run)

    assert run.status == "completed"
    assert 0 < redis.ttl(key_of(run)) <= HOUR
    assert not Chunk.objects.exists()


def test_whoever_sees_the_end_shortens_the_life_of_a_stream_whose_run_was_cancelled(redis: Redis) -> None:
    workflows.says.append(["a"])
    run = started("speaks_then_asks")
    cancel_run(run)

    assert [message.event for message in got(Watch(run))] == ["chunk", "end"]

    assert 0 < redis.ttl(key_of(run)) <= HOUR


def test_no_token_is_in_redis(redis: Redis) -> None:
    workflows.says.append(["a"])
    run = started("speaks_then_asks")
    token = run.hooks.get().token

    stored = repr([redis.keys(), redis.xrange(key_of(run))])

    assert str(run.public_id) in stored
    assert token not in stored


def test_entries_that_are_sent_twice_are_there_once(redis: Redis) -> None:
    stream = get_runtime().stream(RunFactory())
    first, second = Entry("7-1", "chunk", "1"), Entry("7-2", "chunk", "2")

    stream.add(1, [first])
    stream.add(1, [first, second])

    assert stream.read("") == [first, second]


def test_an_earlier_turn_can_not_add_any_more(redis: Redis) -> None:
    stream = get_runtime().stream(RunFactory())
    stream.add(1, [Entry("7-1", "chunk", "1")])

    assert [entry.cursor for entry in stream.begin(3)] == ["7-1", "7-2"]

    with pytest.raises(StreamLost):
        stream.add(1, [Entry("7-9", "chunk", "2")])
    with pytest.raises(StreamLost):
        stream.begin(2)
    stream.add(3, [Entry("7-3", "chunk", "3")])
    with pytest.raises(StreamLost):
        stream.add(2, [Entry("7-9", "chunk", "2")])
    assert [entry.text for entry in stream.read("")] == ["1", "", "3"]


def test_a_reader_is_woken_by_the_next_chunk(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = get_runtime().stream(RunFactory())
    stream.add(1, [Entry("7-1", "chunk", "1")])
    asked: list[int] = []
    block = Redis.xread

    def meanwhile(self: Redis, *args: Any, **kwargs: Any) -> Any:
        asked.append(kwargs["block"])
        stream.add(1, [Entry("7-2", "chunk", "2")])
        return block(self, *args, **kwargs)

    monkeypatch.setattr(Redis, "xread", meanwhile)

    assert [entry.text for entry in stream.read("7-1", wait=1)] == ["2"]
    assert stream.read("7-2") == []
    assert asked == [1000]


def test_while_redis_is_down_a_run_goes_on_and_its_chunks_wait(
    own_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rq, "QUIET_SECONDS", (0, 0))
    workflows.says.append(["a", workflows.during, "b", "c", workflows.during, "d"])
    another = EmbeddedRedis(socket_path=own_redis.socket_path)

    def stops() -> None:
        workflows.during[0] = another.start
        own_redis.stop()

    workflows.during.append(stops)
    try:
        run = started("speaks")

        assert run.status == "completed"
        # It came back empty, and got what could not be told meanwhile.
        assert sent(run) == ["b", "c", "d"]
    finally:
        another.stop()


def test_a_redis_that_is_down_all_the_time_costs_the_view_only(own_redis: EmbeddedRedis) -> None:
    own_redis.stop()
    workflows.says.append(list(range(50)))

    run = answered(started("speaks_then_asks"))

    assert (run.status, run.result) == ("completed", "yes")
    assert [message.event for message in got(Watch(run))] == ["end"]


def test_after_an_error_redis_is_left_alone_for_a_while(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def broken(*args: Any, **kwargs: Any) -> None:
        asked.append("asked")
        raise RedisConnectionError

    monkeypatch.setattr(Redis, "evalsha", broken)
    workflows.says.append(list(range(50)))

    run = started("speaks")

    assert run.status == "completed"
    assert asked == ["asked"]


def test_a_redis_that_is_full_fails_no_run(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **kwargs: Any) -> None:
        raise ResponseError("OOM command not allowed when used memory > 'maxmemory'.")

    monkeypatch.setattr(Redis, "evalsha", full)
    workflows.says.append(["a"])

    assert started("speaks").status == "completed"


def test_a_queue_that_is_not_in_rq_queues_fails_no_run(redis: Redis, settings: Any) -> None:
    workflows.says.append(["a"])
    settings.RQ_QUEUES = {"another": settings.RQ_QUEUES["default"]}

    run = started("speaks")

    assert run.status == "completed"
    with pytest.raises(StreamDown):
        get_runtime().stream(run).read("")


def test_whatever_a_stream_of_somebody_elses_raises_fails_no_run(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Redis, "evalsha", lambda *args: 1 / 0)
    workflows.says.append(["a", "b"])

    assert started("speaks").status == "completed"
    assert caplog.text.count("could not be sent") == 1


def test_when_redis_forgets_all_in_the_middle_watchers_go_on(redis: Redis) -> None:
    workflows.says.append(["a", workflows.during, "b"])
    watched: list[Any] = []
    run = workflows.run_step.start("speaks")
    watch = Watch(run)

    def forgets() -> None:
        watched.extend(watch.look())
        redis.flushall()

    workflows.during.append(forgets)
    turn(run)

    events = [(message.event, message.data) for message in [*watched, *got(watch)]]
    assert [event for event, _ in events] == ["chunk", "chunk", "end"]
    assert '"chunk":"b"' in events[1][1]


def test_when_redis_forgets_all_between_two_turns_watchers_are_told_to_begin_anew(redis: Redis) -> None:
    workflows.says.append(["a"])
    run = started("speaks_then_asks")
    watch = Watch(run)
    assert [message.event for message in got(watch)] == ["chunk", "waiting"]
    redis.flushall()

    run = answered(run)
    watch._look_at = 0

    assert [message.event for message in got(watch)] == ["restart", "chunk", "end"]
    assert chunks(run) == ["a"]


def test_scripts_that_redis_forgot_are_told_again(redis: Redis) -> None:
    stream = get_runtime().stream(RunFactory())
    stream.add(1, [Entry("7-1", "chunk", "1")])
    redis.script_flush()

    stream.add(1, [Entry("7-2", "chunk", "2")])

    assert len(stream.read("")) == 2
