"""The commands for a shell: `stephooks`, `stephooks_doctor`, `stephooks_prune`."""

from __future__ import annotations

import io
import json
from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.core.management.base import OutputWrapper
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_stephooks import step_hook, workflow
from django_stephooks.management.commands import stephooks_prune as command
from django_stephooks.models import Event, Hook, Run, Sweep
from django_stephooks.services.runs import cancel_run

pytestmark = pytest.mark.django_db(transaction=True)


@workflow
def ask_for_release(text: str):
    return step_hook("release", title="Release it?", timeout="24h", context={"text": text})


@workflow
def fall_over():
    raise ValueError("it fell over")


def call(*arguments: str, **options: object) -> str:
    out = io.StringIO()
    call_command(*arguments, stdout=out, stderr=out, **options)
    return out.getvalue()


@pytest.fixture
def dana() -> User:
    user = User.objects.create_user("dana")
    names = ["view_hook", "review_hook", "cancel_run", "retry_run"]
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    return user


@pytest.fixture
def hook() -> Hook:
    ask_for_release.start("a\x00b")
    return Hook.objects.get()


class TestLookingAround:
    def test_waiting_hooks_are_listed_by_what_they_ask(self, hook):
        assert "Release it?" in call("stephooks", "hooks", "list", "--status", "waiting")
        assert call("stephooks", "hooks", "list", "--status", "expired") == ""

    def test_a_list_can_be_narrowed_to_a_workflow(self, hook):
        assert call("stephooks", "runs", "list", "--workflow", "ask_for_release")
        assert call("stephooks", "runs", "list", "--workflow", "fall_over") == ""

    @pytest.mark.parametrize("limit", ["-1", "0", "many"])
    def test_a_list_of_no_length_is_refused(self, hook, limit):
        with pytest.raises(CommandError, match="not a whole number of at least 1"):
            call("stephooks", "hooks", "list", f"--limit={limit}")
        assert call("stephooks", "hooks", "list", "--limit=1")

    @pytest.mark.parametrize("by", ["pk", "public_id"])
    def test_a_hook_is_shown_with_its_context_and_without_its_token(self, hook, by):
        shown = call("stephooks", "hooks", "show", str(getattr(hook, by)))
        assert "Release it?" in shown
        assert "{'text': 'a\ufffdb'}" in shown
        assert hook.token not in shown

    def test_a_run_is_shown_with_its_story(self, hook):
        shown = call("stephooks", "runs", "show", str(hook.run_id))
        assert "suspended" in shown
        assert "hook_created release:1" in shown

    @pytest.mark.parametrize("wrong", ["999999", "nonsense", "c7dcc1c6-3f0c-4f0e-9a56-bd1b8a1d3a11"])
    def test_what_is_not_there_is_a_sentence(self, wrong):
        with pytest.raises(CommandError, match=wrong):
            call("stephooks", "hooks", "show", wrong)


class TestAnswering:
    def test_an_approval_is_the_same_answer_as_in_the_admin(self, hook, dana):
        call("stephooks", "hooks", "resume", str(hook.pk), "--approve", "--comment", "fine", "--as", "dana")
        hook.refresh_from_db()
        assert hook.payload == {"approved": True, "comment": "fine", "reviewer": "dana"}
        assert (hook.answered_by, hook.channel) == (dana, "command")
        assert hook.run.status == Run.Status.COMPLETED

    def test_a_payload_of_ones_own_is_given_as_json(self, hook, dana):
        call("stephooks", "hooks", "resume", str(hook.pk), "--payload", json.dumps([1, None]), "--as", "dana")
        hook.refresh_from_db()
        assert hook.payload == [1, None]

    def test_a_rejection_says_why(self, hook, dana):
        with pytest.raises(CommandError, match="say why"):
            call("stephooks", "hooks", "resume", str(hook.pk), "--reject", "--as", "dana")

    @pytest.mark.parametrize("payload", ["{", '{"a": NaN}', "[" * 100_000])
    def test_a_bad_payload_uses_nothing_up(self, hook, dana, payload):
        with pytest.raises(CommandError):
            call("stephooks", "hooks", "resume", str(hook.pk), "--payload", payload, "--as", "dana")
        hook.refresh_from_db()
        assert hook.status == Hook.Status.PENDING

    def test_the_rules_hold_here_too(self, hook, dana):
        dana.user_permissions.clear()
        with pytest.raises(CommandError, match="permission to answer hooks"):
            call("stephooks", "hooks", "resume", str(hook.pk), "--approve", "--as", "dana")

    def test_the_second_one_is_told_who_was_first(self, hook, dana):
        arguments = ("stephooks", "hooks", "resume", str(hook.pk), "--approve", "--as", "dana")
        call(*arguments)
        with pytest.raises(CommandError, match="already answered by dana"):
            call(*arguments)


class TestRuns:
    def test_cancel_keeps_who_and_why(self, hook, dana):
        call("stephooks", "runs", "cancel", str(hook.run_id), "--reason", "not needed", "--as", "dana")
        cancelled = Event.objects.get(type=Event.Type.RUN_CANCELLED)
        assert (cancelled.data["by"], cancelled.data["reason"]) == ("dana", "not needed")

    def test_retry_takes_a_failed_run_up_again(self, dana):
        run = fall_over.start()
        call("stephooks", "runs", "retry", str(run.pk), "--as", "dana")
        assert run.events.filter(type=Event.Type.RUN_FAILED).count() == 2

    @pytest.mark.parametrize("action", ["cancel", "retry"])
    def test_both_take_their_permission(self, hook, dana, action):
        dana.user_permissions.clear()
        with pytest.raises(CommandError, match=f"{action}_run"):
            call("stephooks", "runs", action, str(hook.run_id), "--as", "dana")
        hook.run.refresh_from_db()
        assert hook.run.status == Run.Status.SUSPENDED

    def test_what_can_not_be_done_is_a_sentence(self, hook, dana):
        with pytest.raises(CommandError, match="only a failed run can be retried"):
            call("stephooks", "runs", "retry", str(hook.run_id), "--as", "dana")


class TestDoctor:
    def test_a_healthy_site_is_ok(self, hook):
        call("stephooks_sweep")
        assert "todo" not in call("stephooks_doctor")

    def test_it_says_that_nobody_sweeps(self, hook):
        with pytest.raises(SystemExit):
            call("stephooks_doctor")
        Sweep.objects.create(last_swept_at=timezone.now() - timedelta(hours=2))
        out = io.StringIO()
        with pytest.raises(SystemExit):
            call_command("stephooks_doctor", stdout=out)
        assert "2 h ago: deadlines are not being enforced" in out.getvalue()

    @pytest.mark.parametrize(
        ("state", "says"),
        [
            ({"status": "pending"}, "1 have waited for a worker"),
            ({"status": "running"}, "1 lost their worker"),
        ],
    )
    def test_it_says_what_is_stuck(self, hook, state, says):
        call("stephooks_sweep")
        Run.objects.update(due_at=timezone.now() - timedelta(hours=1), **state)
        out = io.StringIO()
        with pytest.raises(SystemExit):
            call_command("stephooks_doctor", stdout=out)
        assert says in out.getvalue()

    def test_it_says_that_redis_is_down_or_nobody_works(self, hook, settings, redis_socket):
        settings.STEPHOOKS = {"RUNTIME": "rq"}
        out = io.StringIO()
        with pytest.raises(SystemExit):
            call_command("stephooks_doctor", stdout=out)
        assert "Nobody works on it. Start `manage.py stephooks_worker default`" in out.getvalue()
        settings.RQ_QUEUES = {"default": {"UNIX_SOCKET_PATH": "/nowhere/redis.sock", "DB": 0}}
        with pytest.raises(SystemExit):
            call_command("stephooks_doctor", stdout=out)
        assert "Redis: It does not answer" in out.getvalue()


class TestPrune:
    @pytest.fixture
    def runs(self) -> dict[str, Run]:
        runs = {
            name: ask_for_release.start(name) for name in ("waiting", "cancelled long ago", "cancelled now")
        }
        for name in ("cancelled long ago", "cancelled now"):
            cancel_run(runs[name])
        long_ago = timezone.now() - timedelta(days=100)
        Run.objects.filter(pk=runs["cancelled long ago"].pk).update(finished_at=long_ago)
        Run.objects.filter(pk=runs["waiting"].pk).update(created_at=long_ago)
        return runs

    def left(self, runs: dict[str, Run]) -> set[str]:
        return {name for name, run in runs.items() if Run.objects.filter(pk=run.pk).exists()}

    def test_only_what_finished_long_ago_goes_with_all_that_belongs_to_it(self, runs):
        assert call("stephooks_prune", "--older-than", "90d") == "1 finished runs deleted.\n"
        assert self.left(runs) == {"waiting", "cancelled now"}
        assert Hook.objects.count() == 2
        assert not Event.objects.filter(run_id=runs["cancelled long ago"].pk).exists()

    def test_waiting_runs_stay_even_with_a_retention_of_zero(self, runs):
        call("stephooks_prune", "--older-than", "0", batch=1)
        assert self.left(runs) == {"waiting"}

    def test_what_is_interrupted_says_how_far_it_came_and_goes_on_when_it_is_called_again(
        self, runs, monkeypatch
    ):
        # Progress, told after each batch here, is where it is interrupted.
        monkeypatch.setattr(command, "PROGRESS_SECONDS", 0)
        said = []

        def interrupt(self, text: str = "", *args: object, **kwargs: object) -> None:
            said.append(text)
            if "so far" in text:
                raise KeyboardInterrupt

        monkeypatch.setattr(OutputWrapper, "write", interrupt)
        call("stephooks_prune", "--older-than", "0", batch=1)
        assert said == ["1 so far …", "Stopped; call it again to go on.", "1 finished runs deleted."]
        assert len(self.left(runs)) == 2
        monkeypatch.undo()
        assert call("stephooks_prune", "--older-than", "0") == "1 finished runs deleted.\n"
        assert self.left(runs) == {"waiting"}

    def test_arguments_and_results_are_not_read_to_be_deleted(self, runs):
        with CaptureQueriesContext(connection) as queries:
            call("stephooks_prune", "--older-than", "0")
        selected = " ".join(query["sql"].partition(" FROM ")[0] for query in queries)
        assert "arguments" not in selected
        assert "payload" not in selected

    def test_a_dry_run_only_counts(self, runs):
        assert call("stephooks_prune", "--older-than", "90d", "--dry-run").startswith("1 finished runs would")
        assert len(self.left(runs)) == 3

    def test_nonsense_is_a_sentence(self):
        with pytest.raises(CommandError, match="a long while"):
            call("stephooks_prune", "--older-than", "a long while")
