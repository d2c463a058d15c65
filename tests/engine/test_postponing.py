"""Old and new workers side by side: a run that one of them can not work on waits for another."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pydantic import BaseModel

from django_stephooks import cancel_run, codec, once, registry, retry_run, sleep, step, step_hook, workflow
from django_stephooks.engine import postponing
from django_stephooks.engine.worker import advance
from django_stephooks.models import Event, Run
from django_stephooks.models.fields import Encoded
from django_stephooks.services.sweep import sweep

from .watching import again, answer, data_of, did, later

pytestmark = pytest.mark.django_db(transaction=True)

T = Event.Type


class Article(BaseModel):
    title: str


@step
def write(title: str) -> Article:
    did.append("write")
    return Article(title=title)


@workflow
def write_and_ask(title: str) -> Any:
    article = write(title)
    answer = step_hook("publish")
    sleep("1h")
    return [article.title, answer]


class OldRelease:
    """While it is entered, this process is a worker that does not know the workflow."""

    def __init__(self, name: str = write_and_ask.name) -> None:
        self.name = name

    def __enter__(self) -> None:
        self.definition = registry._definitions.pop(self.name)

    def __exit__(self, *raised: Any) -> None:
        registry._definitions[self.name] = self.definition


def warnings_of(run: Run) -> list[Any]:
    return [data for data in data_of(run, T.STEP_WARNED) if data.get("postponed")]


def test_old_worker_leaves_a_run_to_a_new_one_that_goes_on_as_if_nothing_was(clock, no_worker, caplog):
    run = write_and_ask.start("A story")
    with OldRelease(), caplog.at_level(logging.WARNING):
        assert advance("default") == run
        # Nothing is ready any more: it does not spin.
        assert advance("default") is None
    assert again(run).status == Run.Status.SUSPENDED
    assert run.due_at == clock.now + postponing.SHORTEST
    assert "left to a worker of another release" in caplog.text

    assert later(clock, "5s", run).status == Run.Status.PENDING
    advance("default")
    assert run.hooks.count() == 1
    assert answer(run).status == Run.Status.PENDING
    with OldRelease():
        advance("default")
    later(clock, "5s", run)
    advance("default")
    later(clock, "1h", run)
    advance("default")
    assert (again(run).status, run.result) == (Run.Status.COMPLETED, ["A story", "yes"])
    assert did == ["write"]
    assert run.recoveries == 0
    assert len(warnings_of(run)) == 2


def test_answer_that_comes_while_a_run_is_left_to_another_worker_is_kept(clock, no_worker):
    run = write_and_ask.start("A story")
    advance("default")
    Run.objects.filter(pk=run.pk).update(status=Run.Status.PENDING, due_at=clock.now)
    with OldRelease():
        advance("default")
    assert answer(run).status == Run.Status.PENDING
    advance("default")
    assert data_of(run, T.TIMER_STARTED)


def test_run_that_no_worker_knows_is_tried_ever_more_seldom_and_fails_in_the_end(clock, no_worker):
    run = write_and_ask.start("A story")
    began = clock.now
    tried = []
    with OldRelease():
        while again(run).status != Run.Status.FAILED:
            assert len(tried) < 30
            if advance("default"):
                tried.append((clock.now - began).total_seconds())
            elif again(run).due_at > clock.now:
                clock.now = run.due_at
                sweep()
    assert tried == [0, 5, 10, 20, 40, 80, *range(140, 600, 60), 600]
    assert run.error["type"] == "django_stephooks.exceptions:UnknownWorkflowError"
    assert run.recoveries == 0

    # The run's page has said so all the time.
    warning = warnings_of(run)[0]["warning"]
    assert f"No workflow or step is called {write_and_ask.name!r}" in warning
    assert (
        f"If none of them can by {began + timedelta(minutes=10):%Y-%m-%d %H:%M:%S} UTC, the run fails."
        in warning
    )


def test_time_is_counted_anew_for_each_deploy(clock, no_worker):
    run = write_and_ask.start("A story")
    with OldRelease():
        advance("default")
    later(clock, "5s", run)
    advance("default")
    answer(run)
    clock.advance("90d")
    with OldRelease():
        advance("default")
    assert again(run).status == Run.Status.SUSPENDED
    assert run.due_at == clock.now + postponing.SHORTEST


def test_retried_run_is_given_the_whole_time_again(clock, no_worker):
    run = write_and_ask.start("A story")
    with OldRelease():
        advance("default")
        later(clock, "10m", run)
        advance("default")
        assert again(run).status == Run.Status.FAILED
        retry_run(run)
        advance("default")
    assert again(run).status == Run.Status.SUSPENDED


def test_run_that_waits_for_another_worker_can_be_cancelled(clock, no_worker):
    run = write_and_ask.start("A story")
    with OldRelease():
        advance("default")
    assert cancel_run(run).status == Run.Status.CANCELLED


def test_setting_of_zero_fails_it_at_once(clock, no_worker, settings):
    settings.STEPHOOKS = {**settings.STEPHOOKS, "DEPLOY_GRACE": 0}
    run = write_and_ask.start("A story")
    with OldRelease():
        advance("default")
    assert again(run).status == Run.Status.FAILED
    assert data_of(run, T.STEP_WARNED) == []


# --- what a newer release recorded -----------------------------------------------------------------


def test_recorded_class_that_only_the_new_release_knows_is_left_to_it(clock, no_worker, monkeypatch):
    run = write_and_ask.start("A story")
    advance("default")
    answer(run)
    with monkeypatch.context() as old:
        old.setattr(Article, "__module__", "the.next.release")
        old.delattr(f"{__name__}.Article")
        advance("default")
        assert again(run).status == Run.Status.SUSPENDED
        assert "can not be read any more" in warnings_of(run)[0]["warning"]
    later(clock, "5s", run)
    advance("default")
    assert data_of(run, T.TIMER_STARTED)


def test_arguments_that_only_the_new_release_can_read_are_left_to_it(clock, no_worker):
    run = write_and_ask.start("A story")
    newer = codec.dumps({"title": "A story"}).replace('"A story"', '{"$t": "of the next release"}')
    Run.objects.filter(pk=run.pk).update(arguments=Encoded(newer))
    advance("default")
    assert Run.objects.get(pk=run.pk).status == Run.Status.SUSPENDED
    assert "arguments of Run" in warnings_of(run)[0]["warning"]
    assert did == []


@workflow
def remember() -> Any:
    return [once("a", lambda: 1), step_hook("publish")]


def test_event_of_a_type_that_only_the_new_release_knows_does_no_harm(clock, no_worker, admin_client: Client):
    run = remember.start()
    advance("default")
    Event.objects.create(run=run, type="run_teleported", call="", data={"to": "Mars"}, created_at=clock.now)
    answer(run)
    advance("default")
    assert (again(run).status, run.result) == (Run.Status.COMPLETED, [1, "yes"])
    page = admin_client.get(reverse("admin:django_stephooks_run_change", args=[run.pk]))
    assert page.status_code == 200
    assert admin_client.get(reverse("stephooks-api:run", args=[run.public_id])).status_code == 200
