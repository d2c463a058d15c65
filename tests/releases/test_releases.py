"""What each earlier release left waiting goes on under this one, and ends as it should."""

from __future__ import annotations

import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.utils.dateparse import parse_datetime
from pytest import Subtests

from django_stephooks.models import Event, Hook, Run
from django_stephooks.services.links import open_link
from tests.clock import Clock

from . import fixtures, workflows
from .cases import CASES, drive
from .make import make_all

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def nobody_else_works(settings: Any) -> None:
    settings.STEPHOOKS = {"RUNTIME": "tests.engine.conftest.NobodyComes"}


def come_two_hours_later(made: dict[str, Any], clock: Clock) -> None:
    """Deadlines and timers of an hour have passed meanwhile, those of a day have not."""
    last = parse_datetime(made["rows"]["Run"][-1]["created_at"])
    assert last is not None
    clock.now = last + timedelta(hours=2)


def bring_all_to_their_end(subtests: Subtests) -> None:
    for run in Run.objects.order_by("pk"):
        case = CASES[str(run.key)]
        with subtests.test(case=run.key):
            assert run.status == case.status
            workflows.did.clear()
            ended = drive(run, case)
            assert (ended.status, ended.error) == (case.ends, None)
            assert ended.result == case.result
            assert type(ended.result) is type(case.result)
            assert workflows.did == list(case.does)
            assert not Hook.objects.pending().filter(run=run).exists()


def test_there_is_one_of_the_current_release() -> None:
    project = tomllib.loads((fixtures.ROOT / "pyproject.toml").read_text())["project"]
    assert f"{project['version']}.json" in [path.name for path in fixtures.releases()]


@pytest.mark.parametrize("release", fixtures.releases(), ids=lambda path: path.stem)
def test_runs_of_a_release_go_on_under_this_one(release: Path, clock: Clock, subtests: Subtests) -> None:
    made = fixtures.load(release)
    come_two_hours_later(made, clock)

    waiting = Hook.objects.pending()
    assert {str(hook.public_id): hook.token for hook in waiting} == made["tokens"]
    for public_id, token in made["links"].items():
        hook, link = open_link(token)
        assert (str(hook.public_id), link.recipient) == (public_id, fixtures.RECIPIENT)

    bring_all_to_their_end(subtests)


def test_runs_of_this_release_are_made_and_go_on_under_it(
    tmp_path: Path, clock: Clock, subtests: Subtests
) -> None:
    path = tmp_path / "now.json"
    make_all(path)
    assert {run.key for run in Run.objects.all()} == set(CASES)
    # Every status that a run can have, and every kind of event that a turn reads.
    assert set(Run.objects.values_list("status", flat=True)) == set(Run.Status.values)
    assert set(Event.REPLAYED) <= set(Event.objects.values_list("type", flat=True))
    assert str(fixtures.ROOT) not in path.read_text()

    call_command("flush", interactive=False, verbosity=0)
    come_two_hours_later(fixtures.load(path), clock)
    bring_all_to_their_end(subtests)
