"""Metrics are read from the database: what waits now, and what the journal tells, counted once."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from django_stephooks import resume_hook
from django_stephooks.contrib.metrics import counting, views
from django_stephooks.contrib.metrics.collector import StepHooksCollector
from django_stephooks.contrib.metrics.models import Tally
from django_stephooks.models import Event, Hook, Run, Sweep
from django_stephooks.services.prune import prune
from django_stephooks.services.runs import retry_run
from django_stephooks.services.sweep import sweep
from tests.clock import Clock
from tests.factories import EventFactory, HookFactory, RunFactory, UserFactory

from . import workflows

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("tests.contrib.metrics_urls")]


@pytest.fixture
def registry() -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=True)
    registry.register(StepHooksCollector())
    return registry


def in_order(sample: Any) -> list[str]:
    """The names of its labels; the bound of a bucket comes last."""
    return sorted(sample.labels, key="le".__eq__)


class Scraper:
    """Prometheus, which comes by and keeps what it was last told."""

    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        self.registry, self.clock = registry, clock

    def scrape(self) -> None:
        text = generate_latest(self.registry).decode()
        self.samples = {
            (
                sample.name.removeprefix("stephooks_"),
                *(sample.labels[key] for key in in_order(sample)),
            ): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def settle(self) -> None:
        """What happened until now is counted once it was seen, and seen for long enough."""
        for _ in range(3):
            self.clock.advance("11s")
            self.scrape()

    def __getitem__(self, name: Any) -> float:
        return self.samples[name if isinstance(name, tuple) else (name,)]


@pytest.fixture
def scraper(registry: CollectorRegistry, clock: Clock) -> Scraper:
    """It has been here before anything happened."""
    scraper = Scraper(registry, clock)
    scraper.scrape()
    return scraper


def test_registering_it_asks_the_database_nothing(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        CollectorRegistry(auto_describe=True).register(StepHooksCollector())


def test_it_says_what_waits_now(scraper: Scraper, clock: Clock) -> None:
    HookFactory(created_at=clock() - timedelta(hours=3))
    HookFactory(received=True)
    HookFactory(expired=True)
    HookFactory(past_deadline=True)
    HookFactory(overdue=True)
    RunFactory.create_batch(2, created_at=clock() - timedelta(minutes=5))
    RunFactory(queue="slow", created_at=clock() - timedelta(minutes=1))
    RunFactory(running=True)
    RunFactory(crashed=True, created_at=clock() - timedelta(minutes=5))
    Sweep.objects.create(pk=1, last_swept_at=clock() - timedelta(seconds=42))
    # Those whose hooks were settled go on: they are ready, or done.
    Run.objects.filter(
        workflow="tests.app.workflows.publish", hooks__status__in=["received", "expired"]
    ).delete()
    scraper.scrape()
    assert scraper["up"] == 1
    assert scraper["hooks_waiting"] == 3
    assert scraper["hooks_past_deadline"] == 1
    assert scraper["hooks_oldest_waiting_seconds"] == 3 * 3600
    assert scraper["runs_ready", "default"] == 2
    assert scraper["runs_ready", "slow"] == 1
    assert scraper["runs_ready_oldest_seconds", "default"] == 300
    assert scraper["runs_ready_oldest_seconds", "slow"] == 60
    assert scraper["runs_running"] == 2
    assert scraper["runs_crashed"] == 1
    assert scraper["sweep_lag_seconds"] == 42


def test_nothing_at_all_is_told_as_nothing(scraper: Scraper) -> None:
    assert scraper["hooks_waiting"] == 0
    assert scraper["hooks_oldest_waiting_seconds"] == 0
    assert scraper["events_total", "hook_expired"] == 0
    assert scraper["turn_seconds_count", "completed"] == 0
    assert scraper["decision_seconds_count"] == 0
    # There never was a sweep: a lag of 0 would be a lie.
    assert ("sweep_lag_seconds",) not in scraper.samples


def test_events_turns_and_decisions_are_counted(scraper: Scraper, clock: Clock) -> None:
    run = workflows.asking.start()
    clock.advance("20m")
    resume_hook(Hook.objects.get(run=run).token, "yes")
    workflows.asking.start()
    clock.advance("2h")
    sweep()
    workflows.obstacles[:] = [ValueError("a stone"), ValueError("a wall")]
    workflows.stumbling.start()
    RunFactory(crashed=True)
    clock.advance("1h")
    sweep()
    scraper.settle()

    for type in Event.Type.values:
        # The run of the factory has rows of its own, which count like any others.
        assert scraper["events_total", type] == Event.objects.filter(type=type).count(), type
    assert scraper["events_total", "hook_expired"] == 1
    assert scraper["events_total", "run_recovered"] == 1
    assert scraper["turn_seconds_count", "failed"] == 1
    assert scraper["turn_seconds_count", "suspended"] == Event.objects.filter(type="run_suspended").count()
    assert scraper["turn_seconds_count", "completed"] == Event.objects.filter(type="run_completed").count()
    assert scraper["turn_seconds_bucket", "completed", "+Inf"] == scraper["turn_seconds_count", "completed"]
    taken = [
        data["seconds"] for data in Event.objects.filter(type="run_completed").values_list("data", flat=True)
    ]
    assert scraper["turn_seconds_sum", "completed"] == pytest.approx(sum(taken), abs=0.001)
    assert scraper["decision_seconds_count"] == 1
    assert scraper["decision_seconds_sum"] == 20 * 60
    assert scraper["decision_seconds_bucket", "900.0"] == 0
    assert scraper["decision_seconds_bucket", "3600.0"] == 1


def test_what_is_on_a_bound_belongs_below_it(scraper: Scraper, clock: Clock) -> None:
    run = workflows.asking.start()
    clock.advance("15m")
    resume_hook(Hook.objects.get(run=run).token, "yes")
    scraper.settle()
    assert scraper["decision_seconds_bucket", "300.0"] == 0
    assert scraper["decision_seconds_bucket", "900.0"] == 1


def test_nothing_is_counted_twice_however_often_it_is_scraped(scraper: Scraper, clock: Clock) -> None:
    workflows.asking.start()
    scraper.settle()
    before = dict(scraper.samples)
    for _ in range(3):
        scraper.settle()
    counted = [name for name in before if name[0].startswith(("events", "turn", "decision"))]
    assert {name: scraper.samples[name] for name in counted} == {name: before[name] for name in counted}
    assert scraper["events_total", "run_started"] == 1


def test_an_event_that_is_committed_behind_a_later_one_is_counted(scraper: Scraper, clock: Clock) -> None:
    """Keys are given before a commit, so a lower one may come to be seen after a higher one."""
    run = RunFactory()
    late = EventFactory(run=run, type="hook_expired")
    key = late.pk
    EventFactory(run=run, type="hook_cancelled")
    late.delete()  # not there yet, for others to see
    clock.advance("11s")
    scraper.scrape()
    assert scraper["events_total", "hook_cancelled"] == 0
    EventFactory(pk=key, run=run, type="hook_expired")
    scraper.settle()
    assert scraper["events_total", "hook_cancelled"] == 1
    assert scraper["events_total", "hook_expired"] == 1


def test_what_was_seen_a_moment_ago_is_not_counted_yet(scraper: Scraper, clock: Clock) -> None:
    EventFactory(type="hook_expired")
    counted = []
    for wait in ("11s", "1s", "8s", "1s"):
        clock.advance(wait)
        scraper.scrape()
        counted.append(scraper["events_total", "hook_expired"])
    assert counted == [0, 0, 0, 1]


def test_counters_do_not_fall_when_runs_are_pruned(scraper: Scraper, clock: Clock) -> None:
    workflows.stumbling.start()
    scraper.settle()
    assert scraper["events_total", "run_completed"] == 1
    assert prune(clock()) == 1
    scraper.settle()
    assert scraper["events_total", "run_completed"] == 1
    assert scraper["turn_seconds_count", "completed"] == 1


def test_what_was_before_the_first_scrape_is_not_counted(registry: CollectorRegistry, clock: Clock) -> None:
    workflows.stumbling.start()
    scraper = Scraper(registry, clock)
    scraper.settle()
    assert scraper["events_total", "run_completed"] == 0


def test_a_long_way_is_counted_bit_by_bit(
    scraper: Scraper, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "MAX_EVENTS", 4)
    run = RunFactory()
    for _ in range(10):
        EventFactory(run=run, type="hook_expired")
    clock.advance("11s")
    scraper.scrape()
    counted = []
    for _ in range(4):
        clock.advance("11s")
        scraper.scrape()
        counted.append(scraper["events_total", "hook_expired"])
    # The first of them is that the run was started.
    assert counted == [3, 7, 10, 10]


def test_of_two_scrapes_at_once_one_counts(
    scraper: Scraper, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflows.stumbling.start()
    clock.advance("11s")
    scraper.scrape()
    clock.advance("11s")
    really_added = counting._added

    def interrupted(*args: Any) -> Any:
        monkeypatch.setattr(counting, "_added", really_added)
        counting.count(clock())  # another one, from its beginning to its end
        return really_added(*args)

    monkeypatch.setattr(counting, "_added", interrupted)
    scraper.scrape()
    assert scraper["events_total", "run_completed"] == 1
    scraper.settle()
    assert scraper["events_total", "run_completed"] == 1


def test_a_slow_scrape_does_not_put_back_what_quicker_ones_counted(
    scraper: Scraper, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflows.stumbling.start()
    clock.advance("11s")
    scraper.scrape()
    clock.advance("11s")
    really_added = counting._added

    def slow(*args: Any) -> Any:
        monkeypatch.setattr(counting, "_added", really_added)
        added = really_added(*args)
        workflows.stumbling.start()
        scraper.settle()
        assert scraper["events_total", "run_completed"] == 2
        return added

    monkeypatch.setattr(counting, "_added", slow)
    scraper.scrape()
    assert scraper["events_total", "run_completed"] == 2


def test_the_first_scrapes_at_once_begin_one_tally(clock: Clock) -> None:
    """Each on a connection of its own, as in a server with threads."""
    start, tallies = threading.Barrier(4), []

    def scrape() -> None:
        start.wait()
        try:
            tallies.append(counting.count(timezone.now()).pk)
        finally:
            connection.close()

    threads = [threading.Thread(target=scrape) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tallies == [1] * 4
    assert Tally.objects.count() == 1


def test_the_oldest_question_is_found_again_when_one_is_reopened(
    scraper: Scraper, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "MARGIN", 0)
    workflows.deaf_ears[:] = [ValueError("deaf")]
    run = workflows.reopens.start()
    clock.advance("1h")
    workflows.asking.start()
    scraper.settle()
    asked_at = Hook.objects.get(status="pending").created_at
    assert scraper["hooks_oldest_waiting_seconds"] == (clock() - asked_at).total_seconds()
    retry_run(run)
    scraper.settle()
    asked_at = Hook.objects.get(run=run).created_at
    assert scraper["hooks_oldest_waiting_seconds"] == (clock() - asked_at).total_seconds()


def test_the_oldest_question_moves_on_when_it_is_answered(scraper: Scraper, clock: Clock) -> None:
    first = workflows.asking.start()
    clock.advance("10m")
    workflows.asking.start()
    scraper.settle()
    assert scraper["hooks_oldest_waiting_seconds"] == 10 * 60 + 33
    resume_hook(Hook.objects.get(run=first).token, "yes")
    scraper.settle()
    assert scraper["hooks_oldest_waiting_seconds"] == 66


@pytest.mark.parametrize("data", [{}, {"seconds": "junk"}, {"seconds": None}], ids=repr)
def test_a_turn_that_says_no_seconds_is_counted_as_an_event_alone(
    data: Any, scraper: Scraper, clock: Clock
) -> None:
    EventFactory(type=Event.Type.RUN_FAILED, data=data)
    scraper.settle()
    assert scraper["events_total", "run_failed"] == 1
    assert scraper["turn_seconds_count", "failed"] == 0


def test_it_costs_as_many_queries_with_many_rows_as_with_few(scraper: Scraper, clock: Clock) -> None:
    def queries(number: int) -> int:
        for _ in range(number):
            workflows.asking.start()
            resume_hook(Hook.objects.filter(status="pending").first().token, "yes")
        HookFactory.create_batch(number)
        clock.advance("11s")
        scraper.scrape()
        clock.advance("11s")
        with CaptureQueriesContext(connection) as captured:
            scraper.scrape()
        return len(captured)

    queries(1)  # what a process looks up once, such as content types
    assert queries(1) == queries(20)


def test_a_database_that_does_not_answer_is_told_and_breaks_no_page(
    scraper: Scraper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: Any) -> None:
        raise OperationalError("gone")

    monkeypatch.setattr("django_stephooks.contrib.metrics.collector.count", fails)
    scraper.scrape()
    assert scraper.samples == {("up",): 0}


# --- the page ---


def get(client: Client, **headers: str) -> Any:
    return client.get(reverse("stephooks-metrics:metrics"), headers=headers)


TOKEN = "fog-over-the-harbor"


@pytest.fixture
def token(settings: Any) -> None:
    settings.STEPHOOKS = {**settings.STEPHOOKS, "METRICS_TOKEN": TOKEN}


def test_whoever_has_the_token_may_read_it(client: Client, token: None) -> None:
    response = get(client, authorization=f"Bearer {TOKEN}")
    assert response.status_code == 200
    assert response["Content-Type"].startswith("text/plain")
    assert "no-store" in response["Cache-Control"]
    assert "stephooks_hooks_waiting 0.0" in response.text


def test_it_speaks_openmetrics_to_whoever_asks_for_it(client: Client, token: None) -> None:
    accept = "application/openmetrics-text; version=1.0.0"
    response = get(client, authorization=f"Bearer {TOKEN}", accept=accept)
    assert response["Content-Type"].startswith("application/openmetrics-text")
    assert response.text.endswith("# EOF\n")


@pytest.mark.parametrize(
    "authorization", ["", "Bearer", "Bearer ", "Bearer fog", f"Basic {TOKEN}", TOKEN, "Bearer fög"]
)
def test_without_the_token_it_is_closed(authorization: str, client: Client, token: None) -> None:
    response = get(client, authorization=authorization)
    assert response.status_code == 401
    assert response["WWW-Authenticate"].startswith("Bearer")
    assert "stephooks_" not in response.text


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer ", "Bearer None"])
def test_without_a_setting_no_token_opens_it(authorization: str, client: Client) -> None:
    assert get(client, authorization=authorization).status_code == 401


@pytest.mark.parametrize(
    ("who", "status"),
    [
        ({"superuser": True}, 200),
        ({"staff": True, "permissions": ["view_run", "view_hook"]}, 200),
        ({"staff": True, "permissions": ["view_hook"]}, 401),
        ({"staff": True}, 401),
        ({"permissions": ["view_run", "view_hook"]}, 401),
        ({"superuser": True, "is_active": False}, 401),
    ],
    ids=str,
)
def test_staff_who_may_view_runs_and_hooks_can_look(who: dict[str, Any], status: int, rf: Any) -> None:
    request = rf.get("/metrics/")
    request.user = UserFactory(**who)
    assert views.metrics(request).status_code == status


def test_nobody_logged_in_can_not(rf: Any) -> None:
    request = rf.get("/metrics/")
    assert views.metrics(request).status_code == 401
    request.user = AnonymousUser()
    assert views.metrics(request).status_code == 401


def test_it_can_only_be_read(client: Client, token: None) -> None:
    assert client.post(reverse("stephooks-metrics:metrics")).status_code == 405
