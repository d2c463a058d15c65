"""Runs on real `rqworker` processes over a real Redis, which are killed, stopped and emptied."""

from __future__ import annotations

import time

import pytest

from demo_project.embedded_redis import EmbeddedRedis
from django_stephooks import resume_hook
from django_stephooks.durations import parse_duration
from django_stephooks.models import Event, Hook, Run

from . import worker_settings, workflows
from .processes import everything_in
from .sites import FORKING, SIMPLE, Site, answer, journal

T = Event.Type
BOTH = pytest.mark.parametrize("worker_class", [FORKING, SIMPLE])
SHORT_DEADLINE = 1.5
LEASE = parse_duration(worker_settings.STEPHOOKS["LEASE"])


@BOTH
def test_run_waits_without_a_worker_and_goes_on_when_answered(site: Site, worker_class: str) -> None:
    site.worker(worker_class)
    run = workflows.publish_reviewed.start(site.desk)
    site.until_status(run, Run.Status.SUSPENDED)
    assert site.notes() == ["draft", "told"]

    # The worker is free: for a job of the project's own, and for another run.
    site.queue().enqueue_call(f"{workflows.__name__}.other_job", args=(site.desk,))
    another = workflows.draft.start(site.desk)
    site.until_noted("other job")
    assert site.until_status(another, Run.Status.COMPLETED).result == "a draft"
    run.refresh_from_db()
    assert run.status == Run.Status.SUSPENDED

    answer(run, {"approved": True})
    site.until_status(run, Run.Status.COMPLETED)
    assert run.result == ["a draft", {"approved": True}]
    assert sorted(site.notes()) == ["draft", "draft", "other job", "publish", "told"]
    assert journal(run, T.STEP_COMPLETED) == ["draft:1", "review:1", "publish:1"]
    assert site.failed_jobs() == []


@BOTH
def test_run_whose_worker_was_killed_in_a_step_is_finished_by_another(site: Site, worker_class: str) -> None:
    worker = site.worker(worker_class)
    run = workflows.typeset_draft.start(site.desk)
    site.until_noted("at go")
    assert len(worker.work_horses()) == (worker_class == FORKING)
    worker.kill()
    run.refresh_from_db()
    assert (run.status, run.turn) == (Run.Status.RUNNING, 1)

    site.open_gate("go")
    site.worker(worker_class)
    site.sweeper()

    site.until_status(run, Run.Status.COMPLETED)
    assert run.result == ["a draft", "set"]
    assert run.turn == 2
    # What was recorded is not done again; what was not recorded is.
    assert site.notes() == ["draft", "typeset", "at go", "typeset", "at go"]
    assert journal(run, T.STEP_COMPLETED) == ["draft:1", "typeset:1"]
    assert len(journal(run, T.RUN_RECOVERED)) == 1
    assert len(journal(run, T.RUN_COMPLETED)) == 1


def test_run_whose_work_horse_was_killed_is_finished_by_the_same_worker(site: Site) -> None:
    worker = site.worker(FORKING)
    run = workflows.typeset_draft.start(site.desk)
    site.until_noted("at go")
    worker.kill_work_horse()
    site.open_gate("go")
    site.sweep_from_now_on()

    site.until_status(run, Run.Status.COMPLETED)
    assert (run.result, run.turn) == (["a draft", "set"], 2)
    assert site.notes().count("draft") == 1
    assert worker.process.poll() is None


def test_orphan_of_a_killed_worker_keeps_its_run_and_finishes_it_alone(site: Site) -> None:
    worker = site.worker(FORKING)
    run = workflows.typeset_draft.start(site.desk)
    site.until_noted("at go")
    worker.kill_parent()
    site.worker(FORKING)
    site.sweep_from_now_on()
    run.refresh_from_db()
    first_lease = run.due_at

    def outlived_its_first_lease() -> bool:
        run.refresh_from_db()
        return run.due_at > first_lease + 2 * LEASE

    # Without a heartbeat the sweep would give the run to the other worker long before that.
    site.until(outlived_its_first_lease)
    assert (run.status, run.turn) == (Run.Status.RUNNING, 1)

    site.open_gate("go")
    site.until_status(run, Run.Status.COMPLETED)
    assert (run.turn, run.recoveries) == (1, 0)
    assert site.notes() == ["draft", "typeset", "at go"]


@pytest.mark.parametrize(("worker_class", "pauses"), [(FORKING, [0, 0.03]), (SIMPLE, [0.002, 0.008])])
def test_worker_killed_right_after_the_answer_costs_nothing_but_time(
    site: Site, worker_class: str, pauses: list[float]
) -> None:
    runs: list[Run] = []
    # A worker that is killed when it has just heard the bell leaves it silent until a sweep comes by.
    site.sweep_from_now_on()
    for number, pause in enumerate(pauses):
        worker = site.worker(worker_class)
        run = workflows.publish_reviewed.start(site.desk)
        site.until_status(run, Run.Status.SUSPENDED)
        answer(run, number)
        time.sleep(pause)
        worker.kill()
        runs.append(run)
    site.worker(worker_class)
    for number, run in enumerate(runs):
        site.until_status(run, Run.Status.COMPLETED)
        assert run.result == ["a draft", number]
        assert journal(run, T.STEP_COMPLETED) == ["draft:1", "review:1", "publish:1"]
        assert len(journal(run, T.RUN_COMPLETED)) == 1
    assert site.notes().count("draft") == site.notes().count("told") == len(pauses)


def test_answer_while_redis_is_down_is_kept_and_the_run_goes_on_when_it_is_back(site: Site) -> None:
    worker = site.worker()
    run = workflows.publish_reviewed.start(site.desk)
    site.until_status(run, Run.Status.SUSPENDED)
    site.server.stop()

    hook = run.hooks.get()
    assert resume_hook(hook.token, "yes", by="dana").status == Hook.Status.RECEIVED
    run.refresh_from_db()
    assert run.status == Run.Status.PENDING

    site.sweep_from_now_on()
    site.server = EmbeddedRedis(socket_path=site.socket_path).start()
    site.until_status(run, Run.Status.COMPLETED)
    assert run.result == ["a draft", "yes"]
    assert site.notes() == ["draft", "told", "publish"]
    # The same one as before the outage.
    assert worker.process.poll() is None


def test_emptied_redis_loses_no_question_and_no_bell(site: Site) -> None:
    worker = site.worker()
    waiting = workflows.publish_reviewed.start(site.desk)
    site.until_status(waiting, Run.Status.SUSPENDED)
    site.redis.flushall()
    answer(waiting, "after the flush")
    site.until_status(waiting, Run.Status.COMPLETED)

    worker.kill()
    ready = workflows.draft.start(site.desk)
    assert site.queue().job_ids
    site.redis.flushall()
    site.worker()
    site.sweep_from_now_on()
    site.until_status(ready, Run.Status.COMPLETED)
    assert waiting.result == ["a draft", "after the flush"]


def test_waiting_and_trying_again_are_no_failures_to_rq(site: Site) -> None:
    site.worker(FORKING)
    site.sweep_from_now_on()
    run = workflows.stumble_then_ask.start(site.desk)
    site.until(lambda: run.hooks.exists())
    site.until_status(run, Run.Status.SUSPENDED)
    assert len(journal(run, T.STEP_RETRYING)) == 2
    answer(run, "yes", name="approve")
    site.until_status(run, Run.Status.COMPLETED)
    assert run.result == "yes"

    # One job failed for real, so the registry is where we look.
    site.queue().enqueue_call("math.sqrt", args=(-1,), job_id="not-ours")
    site.until(site.failed_jobs)
    assert site.failed_jobs() == ["not-ours"]


def test_redis_and_the_logs_hold_no_secrets(site: Site) -> None:
    argument, payload = "the-secret-in-the-arguments", "the-secret-in-the-payload"
    secrets = [argument, payload, workflows.CHECKPOINT, workflows.CONTEXT]
    # The scan would see them: RQ packs what it stores.
    planted = site.queue().enqueue_call("math.sqrt", args=(argument,), meta={"note": payload})
    assert argument.encode() in everything_in(site.redis)
    assert payload.encode() in everything_in(site.redis)
    planted.delete()

    def leaked() -> list[str]:
        found = everything_in(site.redis)
        return [secret for secret in secrets if secret.encode() in found]

    run = workflows.secretive.start(site.desk, argument)
    assert b"stephooks-bell" in everything_in(site.redis)
    assert leaked() == []
    worker = site.worker(FORKING)
    site.until_noted("at go")
    secrets.append(run.hooks.get().token)
    assert b"stephooks-bell" in everything_in(site.redis)
    assert leaked() == []
    site.open_gate("go")
    site.until_status(run, Run.Status.SUSPENDED)
    assert leaked() == []
    answer(run, {"note": payload}, name="approve")
    site.until_noted("at finish")
    assert leaked() == []
    site.open_gate("finish")
    site.until_status(run, Run.Status.COMPLETED)
    assert run.result == {"answer": {"note": payload}, "secret": argument}
    failed = site.until_status(workflows.failing.start(argument), Run.Status.FAILED)
    assert argument in failed.error["message"]
    site.until(lambda: not site.queue().job_ids)
    assert leaked() == []
    assert site.failed_jobs() == []
    said = worker.log.read_text()
    assert "Job OK" in said
    assert [secret for secret in secrets if secret in said] == []


@BOTH
def test_async_workflow_waits_for_two_people_at_once(site: Site, worker_class: str) -> None:
    site.worker(worker_class)
    run = workflows.ask_both.start(site.desk)
    site.until_status(run, Run.Status.SUSPENDED)
    assert run.hooks.pending().count() == 2
    answer(run, "first", name="eli")
    site.until(lambda: journal(run, T.STEP_COMPLETED) == ["ask_one:2"])
    site.until_status(run, Run.Status.SUSPENDED)
    answer(run, "second", name="dana")
    site.until_status(run, Run.Status.COMPLETED)
    assert run.result == ["second", "first"]
    assert site.notes() == ["both answered"]


def test_scheduler_enforces_a_deadline_although_redis_was_emptied(site: Site) -> None:
    scheduler = site.command("stephooks_scheduler", "--interval", "0.5")
    worker = site.worker()
    run = workflows.publish_reviewed.start(site.desk, SHORT_DEADLINE)
    site.until_status(run, Run.Status.SUSPENDED)
    site.redis.flushall()

    site.until_status(run, Run.Status.COMPLETED)
    assert run.result == ["a draft", "nobody"]
    hook = run.hooks.get()
    assert (hook.status, hook.answered_by_label) == (Hook.Status.EXPIRED, "system (deadline)")
    assert hook.settled_at >= hook.expires_at
    assert worker.process.poll() is scheduler.process.poll() is None
