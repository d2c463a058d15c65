"""Answering many at once: asked first, ids frozen, each by the rule book and in its own transaction."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_stephooks.models import Event, Hook, Run
from django_stephooks.services.hooks import resume_hook
from tests.factories import HookFactory, UserFactory

from .conftest import browser_of
from .pages import HOOKS, again, parsed, text_of

pytestmark = pytest.mark.django_db

BULK = f"{HOOKS}bulk/"
EVIL = "<script>alert(1)</script>"


class Fee(pydantic.BaseModel):
    approved: bool
    amount: int


class Simple(pydantic.BaseModel):
    approved: bool
    comment: str


def select(browser: Client, *hooks: Hook, action: str = "approve_selected", **fields: Any) -> Any:
    """Tick the hooks in the list, choose the action, press Go."""
    url = fields.pop("url", HOOKS)
    data = {"action": action, "_selected_action": [hook.pk for hook in hooks], **fields}
    return browser.post(url, data)


def groups(response: Any) -> tuple[list[Hook], list[Hook], list[Hook]]:
    found = response.context["groups"]
    return found.ready, [hook for hook, _ in found.settled], [hook for hook, _ in found.others]


def confirm(browser: Client, page: Any, comment: str = "") -> Any:
    (form,) = [form for form in parsed(page).forms if "selection" in form.fields]
    return browser.post(form.action, {**form.fields, "comment": comment})


def said(browser: Client) -> str:
    return text_of(browser.get(HOOKS))


def test_page_tells_what_will_become_of_each(browser: Client, dana: Any) -> None:
    mine = HookFactory(title=EVIL)
    theirs = HookFactory(reviewers=["email:lou@example.com"])
    own = HookFactory(run__started_by=dana)
    answered = HookFactory(received=True, by="lou", answer={"approved": False, "comment": EVIL})
    expired, gone = HookFactory(past_deadline=True), HookFactory(cancelled=True)
    more = HookFactory(schema=f"{__name__}:Fee")
    hooks = [mine, theirs, own, answered, expired, gone, more]
    page = select(browser, *hooks, url=f"{HOOKS}?status=all")
    ready, settled, others = groups(page)
    assert ready == [mine]
    assert set(settled) == {answered, expired, gone}
    assert set(others) == {theirs, own, more}
    text = text_of(page)
    for words in (
        "Approve 1 question?",
        "Will be approved (1)",
        "Already rejected by lou",
        "it is too late now",
        "no longer asked",
        "it was put to other reviewers",
        "whoever started the run",
        "It asks for more than yes or no",
    ):
        assert words in text
    assert EVIL.encode() not in page.content
    assert Hook.objects.filter(channel="bulk").count() == 0


def test_result_is_counted(browser: Client) -> None:
    hooks = HookFactory.create_batch(3)
    others = [
        HookFactory(received=True),
        HookFactory(expired=True),
        HookFactory(cancelled=True),
        HookFactory(reviewers=["email:lou@example.com"]),
        HookFactory(schema=f"{__name__}:Fee"),
    ]
    page = select(browser, *hooks, *others, url=f"{HOOKS}?status=all")
    assert confirm(browser, page, "Fine.")["Location"] == f"{HOOKS}?status=all"
    text = said(browser)
    for words in (
        "3 approved",
        "1 already answered",
        "1 expired",
        "1 no longer asked",
        "1 not yours to review",
    ):
        assert words in text
    assert "1 to be answered on their own page" in text
    for hook in hooks:
        assert again(hook).payload == {"approved": True, "comment": "Fine.", "reviewer": "dana"}
        assert again(hook).channel == "bulk"
        assert hook.run.events.filter(type=Event.Type.HOOK_RECEIVED).get().data["seen"]
    assert LogEntry.objects.count() == 3
    assert {entry.get_change_message() for entry in LogEntry.objects.all()} == {"Approved."}


@pytest.mark.django_db(transaction=True)
def test_runs_go_on(browser: Client) -> None:
    hooks = [HookFactory(), HookFactory(schema=f"{__name__}:Simple")]
    confirm(browser, select(browser, *hooks, action="reject_selected"), "All of them: no.")
    assert {hook.run.status for hook in Hook.objects.select_related("run")} == {Run.Status.COMPLETED}
    assert [hook.payload["comment"] for hook in Hook.objects.all()] == ["All of them: no."] * 2
    assert "2 rejected." in said(browser)


def test_rejecting_needs_a_comment_and_keeps_the_page(browser: Client) -> None:
    hook, answered = HookFactory(), HookFactory(received=True)
    page = select(browser, hook, answered, action="reject_selected", url=f"{HOOKS}?status=all")
    refused = confirm(browser, page, "  ")
    assert refused.status_code == 400
    assert "This field is required." in text_of(refused)
    assert groups(refused) == ([hook], [answered], [])
    assert again(hook).status == Hook.Status.PENDING
    confirm(browser, refused, "Now with words.")
    assert again(hook).payload["approved"] is False


def test_somebody_is_faster_between_page_and_click(browser: Client) -> None:
    first, second = HookFactory(), HookFactory()
    page = select(browser, first, second)
    resume_hook(first.token, {"approved": False}, by="lou")
    confirm(browser, page)
    assert "1 already answered, 1 approved." in said(browser)
    assert again(first).answered_by_label == "lou"


def test_what_changed_since_the_page_was_made_is_left_alone(browser: Client) -> None:
    hook = HookFactory(context={"fee": 1})
    page = select(browser, hook)
    Hook.objects.update(context={"fee": 1000})
    confirm(browser, page)
    assert "1 changed meanwhile and left alone." in said(browser)
    assert again(hook).status == Hook.Status.PENDING


def test_hook_that_is_gone_by_then(browser: Client) -> None:
    hook = HookFactory()
    page = select(browser, hook)
    hook.run.delete()
    confirm(browser, page)
    assert "1 gone." in said(browser)


def test_ids_are_frozen_when_the_page_is_made(browser: Client) -> None:
    hook = HookFactory()
    page = select(browser, hook, select_across="1")
    later = HookFactory()
    confirm(browser, page)
    assert again(hook).status == Hook.Status.RECEIVED
    assert again(later).status == Hook.Status.PENDING


def test_selection_of_another_can_not_be_sent(browser: Client) -> None:
    hook = HookFactory()
    page = select(browser_of(UserFactory(username="kim", reviewer=True)), hook)
    confirm(browser, page)
    assert "select the questions again" in said(browser)
    assert again(hook).status == Hook.Status.PENDING


@pytest.mark.parametrize("selection", ["", "junk", "a:b:c"])
def test_selection_made_by_hand_is_refused(browser: Client, selection: str) -> None:
    hook = HookFactory()
    data = {"selection": selection, "comment": "x", "_selected_action": [hook.pk], "select_across": "1"}
    assert browser.post(BULK, data)["Location"] == HOOKS
    assert "select the questions again" in said(browser)
    assert again(hook).status == Hook.Status.PENDING


def test_page_of_the_selection_is_not_one_to_open(browser: Client) -> None:
    assert browser.get(BULK)["Location"] == HOOKS


def test_all_that_are_filtered_and_no_more(browser: Client) -> None:
    wanted = HookFactory(name="approve", title="Wanted")
    HookFactory(name="sign")
    HookFactory(name="approve", received=True)
    page = select(browser, wanted, select_across="1", url=f"{HOOKS}?name=approve")
    assert groups(page) == ([wanted], [], [])
    assert confirm(browser, page)["Location"] == f"{HOOKS}?name=approve"


@pytest.mark.parametrize("across", ["0", "1"])
def test_limit_is_a_sentence_and_nothing_is_done(browser: Client, settings: Any, across: str) -> None:
    settings.STEPHOOKS = {**settings.STEPHOOKS, "BULK_LIMIT": 2}
    hooks = HookFactory.create_batch(3)
    assert select(browser, *hooks, select_across=across).status_code == 302
    assert "More than 2 questions are selected" in said(browser)
    assert len(groups(select(browser, *hooks[:2]))[0]) == 2


def test_a_thousand_and_one_selected_are_refused_with_a_sentence(browser: Client) -> None:
    hook = HookFactory()
    copies = [
        Hook(run=hook.run, call=f"review:1/approve:{n}", name="approve", created_at=hook.created_at)
        for n in range(2, 1002)
    ]
    Hook.objects.bulk_create(copies)
    assert select(browser, hook, select_across="1").status_code == 302
    assert "More than 200 questions are selected" in said(browser)


# Who may


@pytest.mark.parametrize("across", ["0", "1"])
def test_hooks_of_others_are_not_theirs_by_number(browser: Client, across: str) -> None:
    others = HookFactory(reviewers=["email:lou@example.com"])
    page = select(browser, others, select_across=across)
    assert groups(page) == ([], [], [others])
    assert not [form for form in parsed(page).forms if "selection" in form.fields]
    assert again(others).status == Hook.Status.PENDING


def test_onlooker_is_not_offered_the_actions_and_can_not_send_them(onlooker: Client) -> None:
    hook = HookFactory()
    page = onlooker.get(HOOKS)
    assert "approve_selected" not in page.content.decode()
    response = select(onlooker, hook)
    assert b"selection" not in response.content
    assert again(hook).status == Hook.Status.PENDING


def test_permission_lost_between_page_and_click(browser: Client, dana: Any) -> None:
    hook = HookFactory()
    page = select(browser, hook)
    dana.user_permissions.remove(Permission.objects.get(codename="review_hook"))
    assert confirm(browser, page).status_code == 403
    assert again(hook).status == Hook.Status.PENDING


def test_reviewer_taken_off_between_page_and_click(browser: Client, dana: Any) -> None:
    hook = HookFactory(reviewers=[f"user:{dana.pk}"])
    page = select(browser, hook)
    Hook.objects.update(reviewers=["email:lou@example.com"])
    confirm(browser, page)
    assert "1 not yours to review." in said(browser)
    assert again(hook).status == Hook.Status.PENDING


@pytest.mark.parametrize("change", [{"is_active": False}, {"is_staff": False}])
def test_deactivated_reviewer_is_sent_to_log_in(browser: Client, dana: Any, change: dict[str, Any]) -> None:
    hook = HookFactory()
    page = select(browser, hook)
    type(dana).objects.update(**change)
    assert confirm(browser, page)["Location"].startswith("/admin/login/")
    assert again(hook).status == Hook.Status.PENDING


def test_form_of_another_site_is_refused(dana: Any) -> None:
    hook = HookFactory()
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(dana)
    page = select(browser_of(dana), hook)
    (form,) = [form for form in parsed(page).forms if "selection" in form.fields]
    del form.fields["csrfmiddlewaretoken"]
    assert strict.post(form.action, form.fields).status_code == 403
    assert again(hook).status == Hook.Status.PENDING


def test_number_of_queries_of_the_page_does_not_depend_on_the_selection(browser: Client) -> None:
    def queries(*hooks: Hook) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert select(browser, *hooks).status_code == 200
        return len(captured)

    hooks = [HookFactory(reviewers=["email:dana@example.com"]) for _ in range(30)]
    queries(hooks[0])
    assert queries(*hooks) == queries(hooks[0])
