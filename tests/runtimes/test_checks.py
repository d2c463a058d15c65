"""`manage.py check`: each complaint is made, says what to do, and is silent when all is well."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

import pytest
from django.core import checks as django_checks
from django.core.checks import run_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import DatabaseError, connection, connections
from django.utils import timezone
from django_rq.queues import DjangoScheduler

from django_stephooks import checks, registry
from django_stephooks.models import Sweep


def ids(messages: Any) -> list[str]:
    return [message.id for message in messages]


@pytest.fixture
def wrong(settings: Any) -> Any:
    """What the checks say with these values in STEPHOOKS."""

    def ask(**values: Any) -> list[Any]:
        settings.STEPHOOKS = values
        return sorted(run_checks(tags=[checks.TAG], databases=[]), key=lambda m: m.id)

    return ask


def test_good_project_hears_nothing(wrong: Any) -> None:
    assert wrong(RUNTIME="rq") == []
    assert wrong(RUNTIME="inline") == []
    assert wrong(LEASE=timedelta(seconds=9), SWEEP_INTERVAL=0.5, MAX_RECOVERIES=0) == []


def test_every_message_has_a_hint_with_its_anchor(wrong: Any) -> None:
    messages = wrong(RUNTIM="rq", LEASE="soon", RUNTIME="nothing", QUEUE="nowhere")
    assert len(messages) >= 3
    for message in messages:
        anchor = message.id.replace(".", "-").lower()
        assert message.hint.endswith(f"See docs/reference/checks.md#{anchor}")


def test_command_prints_them(settings: Any) -> None:
    settings.STEPHOOKS = {"RUNTIM": "rq"}
    with pytest.raises(SystemCheckError, match=r"stephooks\.E001"):
        call_command("check")


def test_unknown_setting_is_met_with_a_suggestion(wrong: Any) -> None:
    (message,) = wrong(SWEEP_INTERVALL="5s")
    assert message.id == "stephooks.E001"
    assert "SWEEP_INTERVALL" in message.msg
    assert "Did you mean 'SWEEP_INTERVAL'?" in message.hint


def test_setting_unlike_any_other_is_met_with_the_list(wrong: Any) -> None:
    (message,) = wrong(zzz=1)
    assert "Known are ALLOW_SELF_REVIEW, API_THROTTLES" in message.hint


def test_setting_that_is_no_dictionary(settings: Any) -> None:
    settings.STEPHOOKS = ["RUNTIME"]
    assert ids(checks.check_names_of_settings()) == ["stephooks.E001"]
    assert checks.check_values_of_settings() == []


@pytest.mark.parametrize(
    "name, value",
    [
        ("LEASE", "soon"),
        ("LEASE", "-5s"),
        ("JOB_TIMEOUT", 0),
        ("SWEEP_INTERVAL", None),
        ("SWEEP_BATCH", 0),
        ("SWEEP_BATCH", True),
        ("MAX_RECOVERIES", -1),
        ("MAX_PAYLOAD_BYTES", "256k"),
        ("MAX_CHECKPOINT_BYTES", 1.5),
        ("ALLOW_SELF_REVIEW", "no"),
        ("QUEUE", ""),
        ("QUEUE", 3),
    ],
)
def test_nonsense_value_is_named(wrong: Any, name: str, value: Any) -> None:
    message = next(m for m in wrong(RUNTIME="inline", **{name: value}) if m.id == "stephooks.E002")
    assert name in message.msg
    assert name in message.hint


def test_wrong_runtime(wrong: Any) -> None:
    (message,) = wrong(RUNTIME="inlin")
    assert message.id == "stephooks.E004"
    assert "Did you mean 'inline'?" in message.msg


def test_django_rq_is_not_installed(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    messages = wrong(RUNTIME="rq")
    assert ids(messages) == ["stephooks.E003", "stephooks.W001"]
    assert "Install django-rq" in messages[0].hint


def test_django_rq_is_no_installed_app(wrong: Any, settings: Any) -> None:
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_rq"]
    (message,) = wrong(RUNTIME="rq")
    assert message.id == "stephooks.E003"
    assert "rqworker" in message.hint


def test_inline_runtime_needs_neither_rq_nor_queues(wrong: Any, settings: Any) -> None:
    del settings.RQ_QUEUES
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_rq"]
    assert wrong(RUNTIME="inline", QUEUE="nowhere") == []


def test_queue_of_the_settings_that_does_not_exist(wrong: Any) -> None:
    (message,) = wrong(RUNTIME="rq", QUEUE="defualt")
    assert message.id == "stephooks.E005"
    assert "STEPHOOKS['QUEUE']" in message.msg
    assert "Did you mean 'default'?" in message.hint


def test_queue_of_a_workflow_that_does_not_exist(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Definition:
        def __init__(self, name: str, queue: str | None) -> None:
            self.name = name
            self.queue = queue

    definitions = [Definition("a", None), Definition("b", "slow"), Definition("c", "express")]
    monkeypatch.setattr(registry, "definitions", lambda: definitions)
    (message,) = wrong(RUNTIME="rq")
    assert message.msg == "Queue 'express', used by c, is not in RQ_QUEUES."


def test_no_queues_at_all(wrong: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "definitions", list)  # other tests define what uses other queues
    settings.RQ_QUEUES = {}
    (message,) = wrong(RUNTIME="rq")
    assert "RQ_QUEUES has: none." in message.hint


def test_scheduler_is_not_installed(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "find_spec", lambda name: None if name == "rq_scheduler" else name)
    (message,) = wrong(RUNTIME="rq")
    assert message.id == "stephooks.W001"
    assert "stephooks_sweep --loop" in message.hint


@pytest.mark.parametrize("chosen", [DjangoScheduler, "django_rq.queues.DjangoScheduler", "nowhere.Scheduler"])
def test_scheduler_class_that_does_not_sweep(wrong: Any, settings: Any, chosen: Any) -> None:
    settings.RQ = {"SCHEDULER_CLASS": chosen}
    (message,) = wrong(RUNTIME="rq")
    assert message.id == "stephooks.I001"
    assert message.level == django_checks.INFO
    assert "stephooks_scheduler" in message.hint


def test_scheduler_class_that_sweeps(wrong: Any, settings: Any) -> None:
    from django_stephooks.runtimes.scheduler import SweepScheduler

    class Own(SweepScheduler):
        pass

    for chosen in (checks.SCHEDULER, SweepScheduler, Own):
        settings.RQ = {"SCHEDULER_CLASS": chosen}
        assert wrong(RUNTIME="rq") == []


def test_time_zones_are_off(wrong: Any, settings: Any) -> None:
    settings.USE_TZ = False
    (message,) = wrong(RUNTIME="rq")
    assert message.id == "stephooks.E006"
    assert "USE_TZ = True" in message.hint


def test_two_workflows_of_one_name(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        registry,
        "conflicts",
        lambda: [registry.Conflict("publish", "shop.publish", "news.publish")],
    )
    (message,) = wrong(RUNTIME="rq")
    assert message.id == "stephooks.E007"
    assert "'publish': shop.publish and news.publish" in message.msg


# --- SQLite ---


@pytest.fixture
def sqlite_options(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have the checks see a SQLite file with these options."""

    def choose(**options: Any) -> None:
        class Fake:
            vendor = "sqlite"

            def __init__(self) -> None:
                self.settings_dict = {"OPTIONS": options}

            def is_in_memory_db(self) -> bool:
                return options.pop("in_memory", False)

        monkeypatch.setattr(checks, "connections", {"default": Fake()})

    return choose


@pytest.mark.parametrize(
    "options, missing",
    [
        ({}, ["IMMEDIATE", "journal_mode=WAL"]),
        ({"transaction_mode": "DEFERRED"}, ["IMMEDIATE", "journal_mode=WAL"]),
        ({"transaction_mode": "immediate"}, ["journal_mode=WAL"]),
        ({"init_command": "pragma journal_mode = wal"}, ["IMMEDIATE"]),
        ({"in_memory": True}, ["IMMEDIATE"]),
        ({"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL"}, []),
    ],
)
def test_sqlite_options(sqlite_options: Any, options: dict[str, Any], missing: list[str]) -> None:
    sqlite_options(**options)
    messages = checks.check_sqlite()
    assert ids(messages) == ["stephooks.W002"] * bool(missing)
    for option in ("IMMEDIATE", "journal_mode=WAL"):
        assert any(option in str(message.hint) for message in messages) == (option in missing)


def test_other_databases_have_no_such_options(monkeypatch: pytest.MonkeyPatch) -> None:
    other = copy.copy(connections["default"])
    other.vendor = "postgresql"
    monkeypatch.setattr(checks, "connections", {"default": other})
    assert checks.check_sqlite() == []


# --- the sweep ---


def swept(ago: timedelta | None) -> list[str]:
    Sweep.objects.all().delete()
    if ago is not None:
        Sweep.objects.create(last_swept_at=timezone.now() - ago)
    return sorted(ids(run_checks(tags=[checks.TAG], databases=["default"])))


@pytest.mark.django_db
def test_sweep_that_is_on_time() -> None:
    assert swept(timedelta(seconds=2)) == []


@pytest.mark.django_db
def test_sweep_that_is_overdue_is_said_with_its_date() -> None:
    assert swept(timedelta(hours=2)) == ["stephooks.W003"]
    (message,) = checks.check_last_sweep(databases=["default"])
    assert message.msg.startswith("Deadlines are not being enforced since ")
    assert "(2 h)" in message.msg
    assert "stephooks_sweep --loop" in message.hint


@pytest.mark.django_db
def test_project_with_a_long_interval_has_more_time(settings: Any) -> None:
    settings.STEPHOOKS = {"RUNTIME": "inline", "SWEEP_INTERVAL": "1h"}
    assert swept(timedelta(hours=2)) == []
    assert swept(timedelta(hours=4)) == ["stephooks.W003"]


@pytest.mark.django_db
def test_nonsense_interval_does_not_break_the_check(settings: Any) -> None:
    settings.STEPHOOKS = {"RUNTIME": "inline", "SWEEP_INTERVAL": "soon"}
    assert swept(timedelta(hours=2)) == ["stephooks.E002", "stephooks.W003"]


@pytest.mark.django_db
def test_new_project_without_runs_hears_nothing() -> None:
    assert swept(None) == []


@pytest.mark.django_db
def test_runs_without_any_sweep_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from django_stephooks.models import Run

    monkeypatch.setattr(type(Run.objects.all()), "exists", lambda self: True)
    assert swept(None) == ["stephooks.W003"]


def test_database_is_asked_only_when_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --database: this test may not touch one, and would fail."""
    assert list(checks.check_last_sweep(databases=None)) == []
    assert list(checks.check_last_sweep(databases=["other"])) == []
    assert [said for said in ids(run_checks()) if said.startswith("stephooks")] == []


@pytest.mark.django_db
def test_missing_table_is_no_complaint_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*args: Any) -> None:
        raise DatabaseError("no such table")

    with connection.execute_wrapper(missing):
        assert list(checks.check_last_sweep(databases=["default"])) == []
