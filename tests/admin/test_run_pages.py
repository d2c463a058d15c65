"""Runs in the admin: the list, the page with its story, cancelling and retrying with a reason."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_stephooks import STEP_HOOK_TIMEOUT, resume_hook
from django_stephooks.models import Event, Hook, Run
from django_stephooks.review import story
from tests.app import workflows
from tests.factories import ArticleFactory, EventFactory, HookFactory, RunFactory, UserFactory, grant

from .conftest import browser_of
from .pages import RUNS, UNREADABLE, address, again, answer, parsed, text_of

pytestmark = pytest.mark.django_db

EVIL = "<script>alert(1)</script>"


def listed(response: Any) -> list[Run]:
    return list(response.context["cl"].result_list)


# The list


def test_newest_run_is_first_with_all_that_tells_it_apart(onlooker: Client) -> None:
    article = ArticleFactory()
    first = RunFactory(completed=True)
    second = RunFactory(subject=article, started_by=UserFactory(username="ann"), suspended=True)
    response = onlooker.get(RUNS)
    assert listed(response) == [second, first]
    for words in ("publish #", "Completed", "Suspended", f"article {article.pk}", "ann"):
        assert words in text_of(response)


def test_filters_and_search_of_runs(onlooker: Client) -> None:
    one = RunFactory(workflow="one", completed=True, key="story-1")
    two = RunFactory(workflow="two", suspended=True)
    assert listed(onlooker.get(RUNS, {"status__exact": "completed"})) == [one]
    assert listed(onlooker.get(RUNS, {"workflow": "two"})) == [two]
    assert listed(onlooker.get(RUNS, {"q": "story-1"})) == [one]
    assert listed(onlooker.get(RUNS, {"q": f"#{two.pk}"})) == [two]


def test_runs_of_the_package_itself_are_in_nobodys_way(onlooker: Client) -> None:
    mine = RunFactory(workflow="publish")
    own = RunFactory(workflow="stephooks.send_review_mail")
    assert listed(onlooker.get(RUNS)) == [mine]
    assert listed(onlooker.get(RUNS, {"kind": "own"})) == [own]
    assert listed(onlooker.get(RUNS, {"kind": "all"})) == [own, mine]
    assert listed(onlooker.get(RUNS, {"workflow": own.workflow})) == [own]
    assert onlooker.get(address(own)).status_code == 200


def test_runs_are_found_by_what_they_are_about(onlooker: Client) -> None:
    article = ArticleFactory()
    about = RunFactory(subject=article)
    RunFactory()
    assert listed(onlooker.get(RUNS, {"q": f"article {article.pk}"})) == [about]


def test_queries_of_the_list_do_not_depend_on_its_rows_and_load_no_records(onlooker: Client) -> None:
    def queries() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            assert onlooker.get(RUNS).status_code == 200
        return [query["sql"] for query in captured]

    RunFactory(subject=ArticleFactory(), started_by=UserFactory())
    queries()
    one = queries()
    for _ in range(49):
        RunFactory(subject=ArticleFactory(), started_by=UserFactory())
    fifty = queries()
    assert len(fifty) == len(one)
    for column in ("arguments", "result", "error"):
        assert not any(f"django_stephooks_run{q}.{q}{column}" in sql for sql in fifty for q in '"`')


def test_runs_whose_records_can_not_be_read_are_listed(onlooker: Client) -> None:
    run = RunFactory(arguments=UNREADABLE, failed=True, error=UNREADABLE)
    Run.objects.update(subject_type=ContentType.objects.create(app_label="gone", model="novel"), subject_id=7)
    assert listed(onlooker.get(RUNS)) == [run]
    assert "novel 7" in text_of(onlooker.get(RUNS))


# The page


def test_page_shows_arguments_result_questions_and_subject(onlooker: Client) -> None:
    article = ArticleFactory(title="Fog")
    hook = HookFactory(title="Publish 'Fog'?", run__subject=article, run__key="story-1")
    run = hook.run
    response = onlooker.get(address(run))
    text = text_of(response)
    for words in ("tests.app.workflows.publish", "title A story", "Fog", "story-1", "Suspended", "Waiting"):
        assert words in text
    assert (address(hook), "Publish 'Fog'?") in parsed(response).links
    done = text_of(onlooker.get(address(RunFactory(completed=True))))
    assert "Result title A story answer approved yes" in done
    late = RunFactory(completed=True, result={"answer": STEP_HOOK_TIMEOUT})
    assert "answer no answer before the deadline" in text_of(onlooker.get(address(late)))


def test_sleeping_run_says_when_it_goes_on(onlooker: Client) -> None:
    assert "Goes on by itself" in text_of(onlooker.get(address(RunFactory(sleeping=True))))


def test_questions_are_not_linked_for_those_who_may_not_see_them(operator: Client) -> None:
    hook = HookFactory()
    assert address(hook) not in operator.get(address(hook.run)).content.decode()


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ({"type": "a.b:Outer.Broke", "message": EVIL, "traceback": "Traceback of it"}, f"Broke: {EVIL}"),
        ({"type": "builtins:KeyError"}, "KeyError"),
        ("just words", "just words"),
        (UNREADABLE, "can not be read"),
    ],
)
def test_error_is_one_line_and_its_traceback_folded(onlooker: Client, error: Any, line: str) -> None:
    response = onlooker.get(address(RunFactory(failed=True, error=error)))
    assert line in text_of(response)
    assert EVIL.encode() not in response.content
    folded = '<pre class="stephooks-traceback" tabindex="0">Traceback of it</pre>'
    assert (folded in response.content.decode()) == (
        "traceback" in error if isinstance(error, dict) else False
    )


@pytest.mark.django_db(transaction=True)
def test_story_of_a_real_run(onlooker: Client, dana: Any) -> None:
    run = workflows.publish.using(started_by=UserFactory(username="ann")).start("Fog")
    hook = Hook.objects.get()
    response = onlooker.get(address(run))
    assert response.content.decode().count('<li aria-current="step">') == 1
    answer(browser_of(dana), hook, "reject", f"Numbers don't add up. {EVIL}")
    response = onlooker.get(address(run))
    text = text_of(response)
    happened = [
        "Run started by ann",
        "Step started review:1",
        "Question asked review:1/approve:1",
        "Waiting",
        "Question rejected review:1/approve:1 by dana",
        "through: admin",
        f"Numbers don't add up. {EVIL}",
        "Going on",
        "Step completed review:1",
        "Run completed",
    ]
    places = [text.index(words, text.index("What happened")) for words in happened]
    assert places == sorted(places)
    assert EVIL.encode() not in response.content
    assert "aria-current" not in response.content.decode().partition("stephooks-story")[2]


def test_story_tells_failures_warnings_timers_and_reasons(onlooker: Client) -> None:
    run = RunFactory(suspended=True)
    error = {"type": "builtins:OSError", "message": "Disk full.", "traceback": "Traceback: disk"}
    for type, data in {
        Event.Type.STEP_RETRYING: {"attempt": 1, "due_at": timezone.now(), "error": error},
        Event.Type.STEP_WARNED: {"warning": "suspension caught"},
        Event.Type.TIMER_STARTED: {"due_at": timezone.now() + timedelta(hours=1)},
        Event.Type.RUN_CANCELLED: {"by": "ollie", "reason": "Changed\x00my mind."},
        Event.Type.HOOK_EXPIRED: {},
        Event.Type.HOOK_RECEIVED: {"by": "lou", "channel": "link"},
        Event.Type.RUN_FAILED: {"type": "builtins:OSError", "message": "No disk."},
        "from_the_future": {},
    }.items():
        EventFactory(run=run, type=type, data=data)
    EventFactory(run=run, type=Event.Type.RUN_RETRIED, data=UNREADABLE)
    EventFactory(run=run, type=Event.Type.RUN_STARTED, data=["not", "a", "dict"])
    text = text_of(onlooker.get(address(run)))
    for words in (
        "OSError: Disk full.",
        "Traceback: disk",
        "suspension caught",
        "Next at",
        "by ollie",
        "Changed\ufffdmy mind.",
        "by system (deadline)",
        "by lou",
        "OSError: No disk.",
        "from_the_future",
        "can not be read any more",
    ):
        assert words in text


def test_results_are_not_loaded_to_tell_a_story(onlooker: Client) -> None:
    run = RunFactory(suspended=True)
    EventFactory(run=run, type=Event.Type.STEP_COMPLETED, call="big:1", data={"result": "x" * 1000})
    with CaptureQueriesContext(connection) as captured:
        assert "Step completed big:1" in text_of(onlooker.get(address(run)))
    assert not any("x" * 1000 in query["sql"] for query in captured)
    loaded = {event.pk: event for event in run.events.filter(type__in=story.TELLING)}
    assert all(event.type != Event.Type.STEP_COMPLETED for event in loaded.values())


def test_long_story_is_cut_at_its_beginning(onlooker: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story, "MAX_LINES", 3)
    run = RunFactory(suspended=True)
    for number in range(5):
        EventFactory(run=run, type=Event.Type.STEP_STARTED, call=f"step:{number}")
    text = text_of(onlooker.get(address(run)))
    assert "The last 3 events; there are earlier ones." in text
    assert "step:1" not in text
    assert text.index("step:2") < text.index("step:4")


def test_number_of_queries_does_not_depend_on_the_story(onlooker: Client) -> None:
    def queries(run: Run) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert onlooker.get(address(run)).status_code == 200
        return len(captured)

    small = HookFactory().run
    large = RunFactory(suspended=True)
    for number in range(25):
        HookFactory(run=large, call=f"review:{number}/approve:1")
        EventFactory(run=large, type=Event.Type.STEP_WARNED, data={"warning": "w"})
    queries(small)
    assert queries(large) == queries(small)


def test_columns_of_a_run_that_can_not_be_read(onlooker: Client) -> None:
    run = RunFactory(completed=True, arguments=UNREADABLE, result=UNREADABLE)
    text = text_of(onlooker.get(address(run)))
    for column in ("arguments", "result"):
        assert f"{column} of Run {run.pk} can not be read" in text


def test_run_that_can_not_be_read_can_be_cancelled(operator: Client) -> None:
    run = RunFactory(suspended=True, arguments=UNREADABLE)
    assert operator.post(address(run, "cancel"), {"reason": "Its class is gone."}).status_code == 302
    assert again(run).status == Run.Status.CANCELLED


def test_run_can_not_be_changed_or_deleted_by_hand(operator: Client) -> None:
    run = RunFactory(suspended=True)
    assert operator.post(address(run), {"status": "completed"}).status_code == 403
    assert operator.post(address(run, "delete"), {"post": "yes"}).status_code == 403
    assert operator.get(f"{RUNS}add/").status_code == 403
    assert again(run).status == Run.Status.SUSPENDED


# Cancel and retry


def test_cancel_with_a_reason(operator: Client) -> None:
    hook = HookFactory()
    page = parsed(operator.get(address(hook.run)))
    operator.get(page.link("Cancel…"))
    assert again(hook.run).status == Run.Status.SUSPENDED
    response = operator.post(page.link("Cancel…"), {"reason": "It grew into a novel."})
    assert (response.status_code, response["Location"]) == (302, address(hook.run))
    assert again(hook.run).status == Run.Status.CANCELLED
    assert again(hook).status == Hook.Status.CANCELLED
    event = hook.run.events.get(type=Event.Type.RUN_CANCELLED)
    assert (event.data["by"], event.data["reason"]) == ("ollie", "It grew into a novel.")
    assert LogEntry.objects.get().get_change_message() == "Cancelled: It grew into a novel."
    assert "It grew into a novel." in text_of(operator.get(address(hook.run)))


@pytest.mark.django_db(transaction=True)
def test_retry_with_a_reason(operator: Client) -> None:
    run = RunFactory(failed=True)
    page = parsed(operator.get(address(run)))
    assert operator.post(page.link("Retry…"), {"reason": "The disk is larger now."}).status_code == 302
    assert again(run).status == Run.Status.SUSPENDED, run.error
    event = run.events.get(type=Event.Type.RUN_RETRIED)
    assert (event.data["by"], event.data["reason"]) == ("ollie", "The disk is larger now.")
    assert LogEntry.objects.get().get_change_message() == "Retried: The disk is larger now."


@pytest.mark.parametrize("action", ["cancel", "retry"])
def test_nothing_is_done_without_a_reason(operator: Client, action: str) -> None:
    run = RunFactory(failed=True)
    response = operator.post(address(run, action), {"reason": " "})
    assert response.status_code == 400
    assert "This field is required." in text_of(response)
    assert again(run).status == Run.Status.FAILED


@pytest.mark.parametrize(("action", "state"), [("cancel", "completed"), ("retry", "suspended")])
def test_run_that_has_moved_on_meanwhile(operator: Client, action: str, state: str) -> None:
    run = RunFactory(**{state: True})
    assert f"{action.title()}…" not in text_of(operator.get(address(run)))
    response = operator.post(address(run, action), {"reason": "I was sure."})
    assert response.status_code == 409
    assert f"is {state}" in text_of(response)
    assert "I was sure." in text_of(response)
    response = operator.get(address(run, action), follow=True)
    assert response.redirect_chain == [(address(run), 302)]
    assert f"is {state}." in text_of(response)
    assert again(run).status == state


@pytest.mark.parametrize("action", ["cancel", "retry"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_each_action_takes_its_own_permission(action: str, method: str) -> None:
    run = RunFactory(failed=True)
    other = {"cancel": "retry_run", "retry": "cancel_run"}[action]
    user = UserFactory(staff=True, permissions=["view_run", other])
    client = browser_of(user)
    assert f"{action.title()}…" not in text_of(client.get(address(run)))
    assert getattr(client, method)(address(run, action), {"reason": "x"}).status_code == 403
    assert again(run).status == Run.Status.FAILED
    grant(user, f"{action}_run")
    user.user_permissions.remove(Permission.objects.get(codename="view_run"))
    assert getattr(client, method)(address(run, action), {"reason": "x"}).status_code == 403


@pytest.mark.parametrize("junk", ["4711", "abc", "%00"])
def test_unknown_run_is_not_found(operator: Client, junk: str) -> None:
    assert operator.post(f"{RUNS}{junk}/cancel/", {"reason": "x"}).status_code == 404


def test_story_of_a_race_says_who_was_first_and_to_what(onlooker: Client) -> None:
    run = RunFactory(suspended=True)
    first, second = (HookFactory(run=run, call=f"ask:{n}", race="ask:1", title=f"Ask {n}") for n in "12")
    resume_hook(second.token, "yes", by=UserFactory(username="robin", reviewer=True))
    told = text_of(onlooker.get(address(run)))
    assert re.search(r"Question withdrawn.*robin.*answered first: ask:2", told)
    assert "Somebody else was asked too, and answered first" in text_of(onlooker.get(address(first)))
