"""The scheduler keeps the sweep coming through everything that Redis and people do to it."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import django_rq
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django_rq.queues import get_queue
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ReadOnlyError
from rq import SimpleWorker
from rq.serializers import JSONSerializer

from demo_project.embedded_redis import EmbeddedRedis
from django_stephooks.runtimes import rq, scheduler
from django_stephooks.runtimes.scheduler import SWEEP_ID, SweepScheduler

from . import stand_in
from .conftest import until, waiting, work_off

SCHEDULE = SweepScheduler.scheduled_jobs_key


def note(word: str) -> None:
    stand_in.worked.append(word)


def make(**options: Any) -> SweepScheduler:
    queue = rq.open_queue("default")
    return SweepScheduler(**{"queue": queue, "connection": queue.connection, "interval": 60, **options})


@pytest.fixture
def sweeper(redis: Redis, worked: list[str]) -> SweepScheduler:
    return make()


def come_due(redis: Redis, *ids: str) -> None:
    redis.zadd(SCHEDULE, dict.fromkeys(ids or (SWEEP_ID,), time.time() - 1))


def crash(*args: Any, **kwargs: Any) -> None:
    raise SystemExit


# --- the sweep's entry ---


def test_first_tick_has_a_worker_sweep(sweeper: SweepScheduler) -> None:
    sweeper.run(burst=True)
    assert waiting() == [SWEEP_ID]
    work_off(rq.open_queue("default"))
    assert stand_in.swept == [1]


def test_sweep_comes_again_and_again(sweeper: SweepScheduler, redis: Redis) -> None:
    for _ in range(5):
        sweeper.run(burst=True)
        work_off(rq.open_queue("default"))
        come_due(redis)
    assert len(stand_in.swept) == 5


def test_sweep_is_not_pushed_before_it_is_due(sweeper: SweepScheduler) -> None:
    began = time.time()
    sweeper.run(burst=True)
    work_off(rq.open_queue("default"))
    due = sweeper.connection.zscore(SCHEDULE, SWEEP_ID)
    assert due > began
    sweeper.run(burst=True)
    # Unless this test was held up for longer than an interval.
    assert waiting() == [] or time.time() >= due


@pytest.mark.parametrize("interval", [0.5, 1, 5, 7])
def test_tick_one_interval_later_is_never_a_moment_too_early(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, interval: float
) -> None:
    sweeper = make(sweep_interval=interval)
    job = sweeper._sweep_job()
    for offset in (0.0, 0.1, 0.3, 0.999):
        now = 1_800_000_000 + offset
        monkeypatch.setattr(scheduler.time, "time", lambda now=now: now)
        assert now < sweeper._next_time(job, waiting=False) <= now + interval


def test_flushed_schedule_is_made_anew(sweeper: SweepScheduler, redis: Redis) -> None:
    sweeper.run(burst=True)
    redis.flushdb()
    sweeper.run(burst=True)
    assert waiting() == [SWEEP_ID]


def test_lost_job_is_made_anew(sweeper: SweepScheduler, redis: Redis) -> None:
    sweeper.run(burst=True)
    work_off(rq.open_queue("default"))
    redis.delete(f"rq:job:{SWEEP_ID}")
    sweeper.run(burst=True)
    assert redis.exists(f"rq:job:{SWEEP_ID}")


@pytest.mark.parametrize("spoil", ["wrong type", "garbage"])
def test_nothing_in_redis_can_break_the_sweep(sweeper: SweepScheduler, redis: Redis, spoil: str) -> None:
    if spoil == "garbage":
        redis.hset(f"rq:job:{SWEEP_ID}", mapping={"meta": b"\xff", "created_at": "never"})
    else:
        redis.hset(f"rq:job:{SWEEP_ID}", mapping={"data": b"\xff", "status": "?"})
    sweeper.run(burst=True)
    work_off(rq.open_queue("default"))
    assert stand_in.swept == [1]


def test_entry_of_a_longer_interval_does_not_delay_the_sweep(sweeper: SweepScheduler, redis: Redis) -> None:
    redis.zadd(SCHEDULE, {SWEEP_ID: time.time() + 3600})
    sweeper.run(burst=True)
    assert waiting() == [SWEEP_ID]


def test_workers_down_for_fifty_ticks_pile_nothing_up(sweeper: SweepScheduler, redis: Redis) -> None:
    for _ in range(50):
        sweeper.run(burst=True)
        come_due(redis)
    assert waiting() == [SWEEP_ID]


def test_crash_between_the_two_calls_loses_one_time_only(
    sweeper: SweepScheduler, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(type(rq.open_queue("default")), "enqueue_job", crash)
        with pytest.raises(SystemExit):
            sweeper.run(burst=True)
    assert redis.zscore(SCHEDULE, SWEEP_ID) is not None
    come_due(redis)
    make().run(burst=True)
    assert waiting() == [SWEEP_ID]


def test_failed_sweep_is_pushed_again_and_forgotten_as_a_failure(
    sweeper: SweepScheduler, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(stand_in, "sweep", lambda: 1 / 0)
        sweeper.run(burst=True)
        logging.disable(logging.ERROR)
        try:
            work_off(rq.open_queue("default"))
        finally:
            logging.disable(logging.NOTSET)
    assert 0 < redis.ttl(f"rq:job:{SWEEP_ID}") <= 60
    come_due(redis)
    sweeper.run(burst=True)
    work_off(rq.open_queue("default"))
    assert stand_in.swept == [1]


def test_sweep_reaches_the_workers_of_a_json_queue(redis: Redis, settings: Any, worked: list[str]) -> None:
    settings.RQ_QUEUES = {
        "default": settings.RQ_QUEUES["default"],
        "json": {**settings.RQ_QUEUES["default"], "SERIALIZER": "rq.serializers.JSONSerializer"},
    }
    settings.STEPHOOKS = {"RUNTIME": "rq", "QUEUE": "json"}
    sweeper = make()
    for _ in range(2):
        sweeper.run(burst=True)
        assert waiting("default", "json") == [SWEEP_ID]
        SimpleWorker([rq.open_queue("json")], connection=redis, serializer=JSONSerializer).work(
            burst=True, logging_level="ERROR"
        )
        come_due(redis)
    assert len(stand_in.swept) == 2
    assert [job.id for job in sweeper.get_jobs()] == [SWEEP_ID]


def test_sweep_of_a_queue_in_another_redis(redis: Redis, settings: Any, worked: list[str]) -> None:
    settings.RQ_QUEUES = {
        "default": settings.RQ_QUEUES["default"],
        "far": {**settings.RQ_QUEUES["default"], "DB": 1},
    }
    settings.STEPHOOKS = {"RUNTIME": "rq", "QUEUE": "far"}
    make().run(burst=True)
    assert waiting("default") == []
    work_off(rq.open_queue("far"))
    assert stand_in.swept == [1]


def test_queue_that_does_not_exist_is_named(redis: Redis, settings: Any) -> None:
    settings.STEPHOOKS = {"RUNTIME": "rq", "QUEUE": "nowhere"}
    with pytest.raises(ImproperlyConfigured, match="There is no queue 'nowhere' in RQ_QUEUES"):
        make().run(burst=True)


# --- what is due before the next interval ---


def swept_already(sweeper: SweepScheduler, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The sweep has just been made and is not due for an hour. Gives the pauses of one more tick."""
    sweeper.sweep_interval = 3600
    sweeper.run(burst=True)
    work_off(rq.open_queue("default"))
    return in_ticks(monkeypatch)


def test_sweep_comes_when_a_deadline_passes(sweeper: SweepScheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    swept_already(sweeper, monkeypatch)
    stand_in.due.append(0)
    with pytest.raises(SystemExit):
        sweeper.run()
    assert waiting() == [SWEEP_ID]


@pytest.mark.parametrize(
    ("seconds", "pause"),
    [
        (0.6, 0.6),
        (0.001, scheduler.LEAST_SECONDS),
        (0, scheduler.LEAST_SECONDS),
        (30, scheduler.LOOK_SECONDS),
    ],
)
def test_scheduler_wakes_when_something_is_due(
    sweeper: SweepScheduler, monkeypatch: pytest.MonkeyPatch, seconds: float, pause: float
) -> None:
    pauses = swept_already(sweeper, monkeypatch)
    stand_in.due.append(seconds)
    with pytest.raises(SystemExit):
        sweeper.run()
    assert sweeper._pause == pause
    assert pauses[0] <= pause
    assert bool(waiting()) == (seconds == 0)


def test_scheduler_goes_on_without_a_database(
    sweeper: SweepScheduler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stand_in.due.append(OperationalError("gone away"))
    sweeper.run(burst=True)
    assert waiting() == [SWEEP_ID]
    assert "gone away" in caplog.text
    assert sweeper._pause == sweeper._interval


def test_sweep_that_no_worker_takes_is_made_by_the_scheduler(sweeper: SweepScheduler, redis: Redis) -> None:
    sweeper.run(burst=True)
    assert stand_in.swept == []
    stand_in.due.append(0)
    sweeper.run(burst=True)
    assert stand_in.swept == [1]
    assert waiting() == [SWEEP_ID]


def test_sweep_that_fails_in_the_scheduler_does_not_end_it(
    sweeper: SweepScheduler, redis: Redis, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise OperationalError("gone away")

    sweeper.run(burst=True)
    come_due(redis)
    monkeypatch.setattr(stand_in, "sweep", fail)
    sweeper.run(burst=True)
    assert "gone away" in caplog.text


def test_sweep_is_taken_before_the_bells_that_wait(sweeper: SweepScheduler) -> None:
    rq.RQRuntime().ring("default")
    sweeper.run(burst=True)
    assert waiting()[0] == SWEEP_ID
    assert len(waiting()) == 2


# --- the project's own scheduled jobs ---


def test_job_for_later_is_pushed_once(sweeper: SweepScheduler, redis: Redis) -> None:
    job = sweeper.enqueue_at(datetime(2020, 1, 1, tzinfo=UTC), note, "once")
    later = sweeper.enqueue_at(datetime(2090, 1, 1, tzinfo=UTC), note, "later")
    for _ in range(3):
        sweeper.run(burst=True)
        work_off(rq.open_queue("default"))
    assert stand_in.worked == ["once"]
    assert job not in sweeper
    assert later in sweeper


def test_periodic_job_is_pushed_each_time(sweeper: SweepScheduler, redis: Redis) -> None:
    job = sweeper.schedule(datetime(2020, 1, 1, tzinfo=UTC), note, args=["tick"], interval=3600)
    for _ in range(3):
        sweeper.run(burst=True)
        assert redis.zscore(SCHEDULE, job.id) > time.time() + 3000
        work_off(rq.open_queue("default"))
        come_due(redis, job.id)
    assert stand_in.worked == ["tick"] * 3


def test_job_repeats_as_often_as_it_says_also_if_workers_were_down(
    sweeper: SweepScheduler, redis: Redis
) -> None:
    start = datetime(2020, 1, 1, tzinfo=UTC)
    job = sweeper.schedule(start, note, args=["tick"], interval=3600, repeat=2)
    for _ in range(3):  # no worker comes
        sweeper.run(burst=True)
        come_due(redis, job.id)
    for _ in range(4):
        work_off(rq.open_queue("default"))
        if job in sweeper:
            come_due(redis, job.id)
        sweeper.run(burst=True)
    assert stand_in.worked == ["tick"] * 2


@pytest.mark.filterwarnings("ignore:Version 0.22:FutureWarning")  # crontab's
def test_cron_job_is_armed_for_its_next_time(sweeper: SweepScheduler, redis: Redis) -> None:
    job = sweeper.cron("0 0 1 1 *", note, args=["new year"])
    come_due(redis, job.id)
    sweeper.run(burst=True)
    assert redis.zscore(SCHEDULE, job.id) > time.time()
    work_off(rq.open_queue("default"))
    assert stand_in.worked == ["new year"]


def test_unreadable_job_is_logged_and_stops_no_other(
    sweeper: SweepScheduler, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    start = datetime(2020, 1, 1, tzinfo=UTC)
    broken = sweeper.enqueue_at(start, note, "broken")
    redis.hset(broken.key, "created_at", "never")
    redis.set("rq:job:string", "not a hash")
    come_due(redis, "string", "gone")
    sweeper.enqueue_at(start + timedelta(seconds=1), note, "fine")
    sweeper.run(burst=True)
    work_off(rq.open_queue("default"))
    assert stand_in.worked == ["fine"]
    assert stand_in.swept == [1]
    assert redis.zrange(SCHEDULE, 0, -1) == [SWEEP_ID.encode()]
    logged = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(logged) == 2
    assert f"Scheduled job {broken.id!r} can not be read" in logged[-1] + logged[0]


def test_job_that_only_a_worker_may_be_able_to_read_is_left_to_it(
    sweeper: SweepScheduler, redis: Redis
) -> None:
    """Its worker may run newer code than the scheduler, or have another serializer."""
    job = sweeper.enqueue_at(datetime(2020, 1, 1, tzinfo=UTC), note, "x")
    redis.hset(job.key, "data", b'["JSON"]')
    sweeper.run(burst=True)
    assert job.id in waiting()
    assert redis.hget(job.key, "data") == zlib.compress(b'["JSON"]')


def test_outage_while_reading_a_job_takes_nothing_off_the_schedule(
    sweeper: SweepScheduler, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = sweeper.enqueue_at(datetime(2020, 1, 1, tzinfo=UTC), note, "kept")
    for error in (RedisConnectionError, ReadOnlyError):

        def fail(*args: Any, error: type[Exception] = error, **kwargs: Any) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(sweeper.job_class, "fetch", fail)
            with pytest.raises(error):
                sweeper.enqueue_jobs()
    assert job in sweeper


def test_schedule_can_be_read_with_times_and_in_pages(sweeper: SweepScheduler) -> None:
    at = datetime(2090, 1, 1, 12, tzinfo=UTC)
    jobs = [sweeper.enqueue_at(at + timedelta(hours=n), note, str(n)) for n in range(3)]
    assert next(iter(sweeper.get_jobs(with_times=True))) == (jobs[0], at.replace(tzinfo=None))
    assert list(sweeper.get_jobs(offset=1, length=1)) == [jobs[1]]
    assert sweeper.count() == 3


# --- outages ---


def in_ticks(monkeypatch: pytest.MonkeyPatch, *between: Callable[[], None]) -> list[float]:
    """Have the scheduler do these instead of sleeping, and then end. Gives the pauses."""
    pauses: list[float] = []
    actions = iter(between)

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        try:
            action = next(actions)
        except StopIteration:
            raise SystemExit from None
        action()

    monkeypatch.setattr(scheduler, "time", type("Time", (), {**vars(time), "sleep": staticmethod(sleep)}))
    return pauses


def test_outage_is_outlived(
    own_redis: EmbeddedRedis, worked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sweeper = make()
    name = sweeper.name
    again = EmbeddedRedis(socket_path=own_redis.socket_path)
    pauses = in_ticks(monkeypatch, own_redis.stop, *[lambda: None] * 6, lambda: again.start() and None)
    try:
        with pytest.raises(SystemExit):
            sweeper.run()
        assert waiting() == [SWEEP_ID]
    finally:
        again.stop()
    assert sweeper.name != name
    outage = pauses[1:-1]
    assert outage == sorted(outage)
    assert outage[-1] == scheduler.LONGEST_PAUSE


def test_stop_during_an_outage_is_a_clean_exit(
    own_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweeper = make()
    in_ticks(monkeypatch, own_redis.stop, lambda: signal.raise_signal(signal.SIGTERM))
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    try:
        with pytest.raises(SystemExit) as caught:
            sweeper.run()
    finally:
        for number, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
            signal.signal(number, handler)
    assert caught.value.code is None


def test_flush_while_running_is_healed_at_the_next_tick(
    sweeper: SweepScheduler, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_ticks(monkeypatch, lambda: redis.flushall() and None)
    with pytest.raises(SystemExit):
        sweeper.run()
    assert waiting() == [SWEEP_ID]
    assert redis.hexists(sweeper.key, "death")


# --- two of them ---


def test_second_scheduler_stands_by(
    sweeper: SweepScheduler, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    assert sweeper.acquire_lock()
    assert make()._tick() is False
    assert waiting() == []
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    sweeper.remove_lock()
    assert make()._tick() is True


def test_lock_of_a_killed_scheduler_runs_out(sweeper: SweepScheduler, redis: Redis) -> None:
    assert sweeper.acquire_lock()
    assert 0 < redis.ttl(sweeper.scheduler_lock_key) <= scheduler.LOCK_SECONDS
    redis.delete(sweeper.scheduler_lock_key)  # as time would
    second = make()
    assert second.acquire_lock()
    sweeper.remove_lock()
    assert redis.exists(second.scheduler_lock_key), "the late one removed the lock of the other"


def test_long_tick_keeps_its_lock(
    sweeper: SweepScheduler, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweeper.acquire_lock()
    redis.expire(sweeper.scheduler_lock_key, 1)
    monkeypatch.setattr(sweeper, "_lock_renewed_at", time.monotonic() - scheduler.LOCK_SECONDS / 2)
    sweeper._renew_lock()
    assert redis.ttl(sweeper.scheduler_lock_key) > 1


def test_own_lock_from_before_an_outage_is_taken_up_again(sweeper: SweepScheduler) -> None:
    assert sweeper.acquire_lock()
    sweeper._lock_acquired = False
    assert sweeper.acquire_lock()


def test_runs_in_a_thread_which_can_not_have_signal_handlers(sweeper: SweepScheduler) -> None:
    thread = threading.Thread(target=sweeper.run, kwargs={"burst": True})
    thread.start()
    thread.join()
    assert waiting() == [SWEEP_ID]


# --- ways to start it ---


def test_plain_rqscheduler_uses_it_and_looks_often_enough(
    redis: Redis, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.RQ = {"SCHEDULER_CLASS": "django_stephooks.runtimes.scheduler.SweepScheduler"}
    pauses = in_ticks(monkeypatch)
    with pytest.raises(SystemExit):
        call_command("rqscheduler", verbosity=0)
    assert waiting() == [SWEEP_ID]
    assert pauses[0] <= 5
    assert isinstance(django_rq.get_scheduler("default"), SweepScheduler)


def test_command_sweeps_as_often_as_it_is_told(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = []
    monkeypatch.setattr(SweepScheduler, "run", lambda self: made.append(self))
    call_command("stephooks_scheduler", "--interval", "2")
    call_command("stephooks_scheduler", "--interval=1m")
    call_command("stephooks_scheduler")
    assert [sweeper.sweep_interval for sweeper in made] == [2, 60, 5]
    assert [sweeper._interval for sweeper in made] == [2, 60, 5]


@pytest.mark.parametrize("text", ["0", "-1", "soon", "1e9999", ""])
def test_command_refuses_nonsense_intervals(text: str) -> None:
    with pytest.raises(CommandError, match="--interval"):
        call_command("stephooks_scheduler", f"--interval={text}")


def test_command_says_what_is_missing(redis: Redis, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.STEPHOOKS = {"QUEUE": "nowhere"}
    with pytest.raises(CommandError, match="There is no queue 'nowhere'"):
        call_command("stephooks_scheduler")

    def missing(path: str) -> None:
        raise ImportError("No module named 'rq_scheduler'")

    monkeypatch.setattr("django_stephooks.management.commands.stephooks_scheduler.import_string", missing)
    with pytest.raises(CommandError, match=r"rq_scheduler.*stephooks_sweep --loop"):
        call_command("stephooks_scheduler")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_command_in_a_process_of_its_own_ends_cleanly(
    child_environment: dict[str, str], redis: Redis, number: signal.Signals
) -> None:
    child = subprocess.Popen(
        [sys.executable, "manage.py", "stephooks_scheduler", "--interval", "1"],
        cwd=Path(__file__).parents[2],
        env=child_environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: child.poll() is not None or waiting())
        child.send_signal(number)
        _, said = child.communicate(timeout=30)
    finally:
        child.kill()
    assert child.returncode == 0, said
    assert waiting() == [SWEEP_ID]
    assert redis.exists(SweepScheduler.scheduler_lock_key) == 0


def test_dashboards_scheduler_needs_no_redis(settings: Any) -> None:
    settings.RQ = {"SCHEDULER_CLASS": SweepScheduler}
    assert isinstance(django_rq.get_scheduler("default"), SweepScheduler)
    assert get_queue("default") is not None
