"""A log line for each event: what happened to which run, and nothing that people wrote."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_stephooks import observers, resume_hook
from django_stephooks.contrib import logs
from django_stephooks.models import Event, Hook, Run
from django_stephooks.services.links import revoke_links
from django_stephooks.services.runs import cancel_run, retry_run
from django_stephooks.services.sweep import sweep
from tests.clock import Clock
from tests.factories import HookFactory, RunFactory, UserFactory

from . import workflows

pytestmark = pytest.mark.django_db(transaction=True)


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def texts(self) -> list[str]:
        return [record.getMessage() for record in self.records]

    def of(self, event: str) -> list[Any]:
        return [record for record in self.records if record.event == event]


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler, logger = Lines(), logs.logger
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logs.connect()
    yield handler
    logs.disconnect()
    logger.setLevel(logging.NOTSET)
    logger.removeHandler(handler)


def test_it_tells_a_run_from_start_to_end(lines: Lines) -> None:
    logs.logger.setLevel(logging.INFO)
    run = workflows.asking.start()
    resume_hook(Hook.objects.get(run=run).token, "yes", channel="api")
    assert [(record.event, record.levelname) for record in lines.records] == [
        (event, "INFO")
        for event in (
            *("run_started", "hook_created", "run_suspended"),
            *("hook_received", "run_completed"),
        )
    ]
    for record in lines.records:
        assert record.run_id == run.pk
        assert record.run_public_id == str(run.public_id)
        assert record.workflow == workflows.asking.name
    (created,) = lines.of("hook_created")
    assert created.call == "ask:1/approve:1"
    assert created.expires_at == Hook.objects.get().expires_at.isoformat()
    (received,) = lines.of("hook_received")
    assert received.channel == "api"
    (suspended,) = lines.of("run_suspended")
    assert (suspended.turn, suspended.seconds > 0) == (1, True)
    (completed,) = lines.of("run_completed")
    assert completed.turn == 2
    assert received.getMessage() == (
        f"hook_received run_id={run.pk} run_public_id={run.public_id} workflow={workflows.asking.name} "
        f"turn=1 call=ask:1/approve:1 channel=api"
    )


def test_what_is_done_inside_a_turn_is_for_debugging(lines: Lines) -> None:
    workflows.asking.start()
    told = {record.event for record in lines.records if record.levelname == "DEBUG"}
    assert told == {"step_started", "step_completed", "once_completed"}


def test_every_event_of_the_journal_is_told_in_order_and_once(lines: Lines, clock: Clock) -> None:
    live_through_everything(clock)
    told = [(record.event, record.run_id, getattr(record, "call", "")) for record in lines.records]
    written = list(Event.objects.order_by("pk").values_list("type", "run_id", "call"))
    # The factories' own rows are written behind the services' backs.
    factories = set(Run.objects.filter(workflow="tests.app.workflows.publish").values_list("pk", flat=True))
    assert [line for line in told if line[1] not in factories] == [
        event for event in written if event[1] not in factories
    ]
    assert {event for event, _, _ in told} >= {
        *("hook_expired", "hook_cancelled", "hook_reopened", "hook_received", "links_revoked"),
        *("run_started", "run_suspended", "run_resumed", "run_completed", "run_failed", "run_cancelled"),
        *("run_retried", "run_recovered", "step_failed", "step_retrying"),
    }


def live_through_everything(clock: Clock) -> None:
    dana = UserFactory(superuser=True, username="secret-dana", email="secret.dana@example.com")
    run = workflows.asking.using(started_by=dana).start()
    hook = Hook.objects.get(run=run)
    revoke_links(hook, by=dana)
    resume_hook(
        Hook.objects.get(run=run).token, {"answer": "secret"}, by="link sent to secret.dana@example.com"
    )
    workflows.obstacles[:] = [ValueError("secret: a stone"), ValueError("secret: a wall")]
    failed = workflows.stumbling.start()
    retry_run(failed, by=dana, reason="secret")
    cancel_run(workflows.asking.start(), by=dana, reason="secret")
    workflows.asking.start()
    clock.advance("2h")
    sweep()
    workflows.deaf_ears[:] = [ValueError("secret")]
    retry_run(workflows.reopens.start())
    RunFactory(crashed=True)
    HookFactory(past_deadline=True)
    clock.advance("1h")
    sweep()


def test_no_line_holds_what_people_wrote_or_who_they_are(lines: Lines, clock: Clock) -> None:
    live_through_everything(clock)
    tokens = [hook.token for hook in Hook.objects.all()]
    assert lines.records
    for record in lines.records:
        told = f"{record.getMessage()} {record.__dict__}"
        assert "secret" not in told
        assert "example.com" not in told
        assert not any(token in told for token in tokens)
    assert {record.error_type for record in lines.of("step_failed")} == {"builtins:ValueError"}


def test_a_turn_costs_no_query_more(lines: Lines) -> None:
    def queries() -> list[int]:
        counts = []
        for action in (
            lambda: workflows.asking.start(),
            lambda: resume_hook(Hook.objects.get(status="pending").token, "yes"),
        ):
            with CaptureQueriesContext(connection) as captured:
                action()
            counts.append(len(captured))
        return counts

    told = queries()
    assert lines.records
    logs.disconnect()
    assert queries() == told


def test_what_the_sweep_does_to_many_costs_one_query_more(
    lines: Lines, django_assert_num_queries: Any
) -> None:
    HookFactory.create_batch(5, past_deadline=True)
    sweep()
    told = lines.of("hook_expired")
    assert len(told) == 5
    assert {record.workflow for record in told} == {"tests.app.workflows.publish"}
    # As the sweep has them: without their runs.
    events = list(Event.objects.filter(type="hook_expired"))
    with django_assert_num_queries(1):
        logs.log(events=events)


def test_what_is_rolled_back_is_not_told(lines: Lines) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        workflows.asking.start()
        raise ZeroDivisionError
    assert lines.records == []


def test_a_value_makes_no_line_of_its_own(lines: Lines) -> None:
    run = RunFactory(suspended=True, workflow="gone\nrun_completed run_id=1")
    cancel_run(run)
    (text,) = lines.texts
    assert text.startswith(f"run_cancelled run_id={run.pk} ")
    assert 'workflow="gone\\nrun_completed run_id=1"' in text
    assert "\n" not in text


@pytest.mark.parametrize(("level", "connected"), [("INFO", True), ("DEBUG", True), ("WARNING", False)])
def test_it_is_connected_when_django_starts_if_its_logger_is_enabled(level: str, connected: bool) -> None:
    code = (
        "import sys, django\n"
        "from django.conf import settings\n"
        "import tests.settings as base\n"
        "values = {name: getattr(base, name) for name in dir(base) if name.isupper()}\n"
        f"loggers = {{'django_stephooks.events': {{'level': {level!r}}}}}\n"
        "values['LOGGING'] = {'version': 1, 'loggers': loggers}\n"
        "values['INSTALLED_APPS'] = [n for n in base.INSTALLED_APPS if 'contrib.metrics' not in n]\n"
        "settings.configure(**values)\n"
        "django.setup()\n"
        "from django_stephooks import signals\n"
        "from django_stephooks.models import Event\n"
        "print(signals.events_recorded.has_listeners(Event))\n"
        "print(sorted(name for name in sys.modules if name.startswith('django_stephooks.contrib.')))\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    loaded = ["django_stephooks.contrib.logs"] if connected else []
    assert result.stdout.splitlines() == [str(connected), str(loaded)]


def test_nobody_is_told_of_events_unless_somebody_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("nobody asked")

    monkeypatch.setattr("django_stephooks.signals._send", refuse)
    monkeypatch.setattr("django_stephooks.observers._Around", refuse)
    run = workflows.asking.start()
    resume_hook(Hook.objects.get(run=run).token, "yes")
    run.refresh_from_db()
    assert run.status == Run.Status.COMPLETED
    assert observers.carried() == {}
    assert run.finished_at - run.created_at < timedelta(minutes=1)
