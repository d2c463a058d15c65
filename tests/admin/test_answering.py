"""Answering in the admin: its own address, the rule book behind it, and nothing typed is lost."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.test import Client

from django_stephooks.models import Event, Hook, Run
from django_stephooks.services import hooks as hooks_service
from django_stephooks.services.digest import digest_of
from tests.factories import HookFactory, UserFactory

from .conftest import browser_of
from .pages import HOOKS, address, again, answer, parsed, text_of

pytestmark = pytest.mark.django_db

EVIL = "<script>alert(1)</script>"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("decision", "approved"), [("approve", True), ("reject", False)])
def test_answer_makes_the_run_go_on(browser: Client, dana: Any, decision: str, approved: bool) -> None:
    hook = HookFactory(title="Publish 'Fog'?")
    response = answer(browser, hook, decision, comment=" Well written. ")
    assert (response.status_code, response["Location"]) == (302, address(hook))
    payload = {"approved": approved, "comment": "Well written.", "reviewer": "dana"}
    hook.refresh_from_db()
    assert hook.payload == payload
    assert (hook.answered_by, hook.answered_by_label, hook.channel) == (dana, "dana", "admin")
    assert hook.run.status == Run.Status.COMPLETED, hook.run.error
    assert hook.run.result == {"title": "A story", "answer": payload}
    text = text_of(browser.get(address(hook)))
    assert ("Approved. Publish 'Fog'?" if approved else "Rejected. Publish 'Fog'?") in text
    assert "'Well written.'" in text


def test_answer_is_in_the_journal_and_in_the_sites_log(browser: Client, dana: Any) -> None:
    hook = HookFactory()
    answer(browser, hook, comment="A secret.")
    assert hook.run.events.filter(type=Event.Type.HOOK_RECEIVED).count() == 1
    entry = LogEntry.objects.get()
    assert (entry.user, entry.get_edited_object(), entry.get_change_message()) == (dana, hook, "Approved.")
    assert "Approved." in text_of(browser.get(address(hook, "history")))


def test_approving_needs_no_comment(browser: Client) -> None:
    hook = HookFactory()
    assert answer(browser, hook).status_code == 302
    assert again(hook).payload == {"approved": True, "comment": "", "reviewer": "dana"}


@pytest.mark.parametrize("comment", ["", "  \n "])
def test_rejecting_needs_a_comment(browser: Client, comment: str) -> None:
    hook = HookFactory()
    response = answer(browser, hook, "reject", comment)
    assert response.status_code == 400
    assert "Say why" in text_of(response)
    assert again(hook).status == Hook.Status.PENDING


@pytest.mark.parametrize("decision", ["", "perhaps"])
def test_without_a_decision_the_typed_comment_is_kept(browser: Client, decision: str) -> None:
    hook = HookFactory()
    response = answer(browser, hook, decision, f"Nearly. {EVIL}")
    assert response.status_code == 400
    assert "Choose one of the buttons." in text_of(response)
    assert typed(response) == f"Nearly. {EVIL}"
    assert EVIL.encode() not in response.content
    assert again(hook).status == Hook.Status.PENDING


def typed(response: Any) -> str:
    (form,) = [form for form in parsed(response).forms if "comment" in form.fields]
    return form.fields["comment"]


def test_comment_with_a_character_that_can_not_be_sent_is_refused_kindly(browser: Client) -> None:
    hook = HookFactory()
    response = answer(browser, hook, "approve", "a\x00b")
    assert response.status_code == 400
    assert "Null characters are not allowed." in text_of(response)
    assert again(hook).status == Hook.Status.PENDING


def test_answer_that_is_too_large_is_refused_and_kept(browser: Client, settings: Any) -> None:
    settings.STEPHOOKS = {**settings.STEPHOOKS, "MAX_PAYLOAD_BYTES": 100}
    hook = HookFactory()
    response = answer(browser, hook, "approve", "x" * 200)
    assert response.status_code == 400
    assert "more than the 100 that MAX_PAYLOAD_BYTES allows" in text_of(response)
    assert typed(response) == "x" * 200
    assert again(hook).status == Hook.Status.PENDING


@pytest.mark.parametrize(
    ("state", "code", "sentence"),
    [
        ({"received": True, "by": "lou", "answer": {"approved": False, "comment": "No."}}, 409, ": 'No.'"),
        ({"expired": True}, 410, "it is too late now"),
        ({"past_deadline": True}, 410, "it is too late now"),
        ({"cancelled": True}, 410, "This is no longer asked: the run is cancelled."),
    ],
)
@pytest.mark.parametrize("comment", ["My two cents.", ""])
def test_who_comes_too_late_is_told_and_can_copy_what_they_wrote(
    browser: Client, state: dict[str, Any], code: int, sentence: str, comment: str
) -> None:
    hook = HookFactory(**state)
    before = again(hook).payload
    # Without a comment this is no valid rejection either, but that does not matter any more.
    response = answer(browser, hook, "reject", comment)
    assert response.status_code == code
    text = text_of(response)
    assert sentence in text
    if comment:
        assert '<textarea id="stephooks-typed" rows="4" readonly>My two cents.' in response.content.decode()
    assert "Approve" not in [b.text for form in parsed(response).forms for b in form.buttons]
    assert again(hook).payload == before
    assert not LogEntry.objects.exists()


def test_somebody_who_was_faster_by_a_moment(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = HookFactory()
    receive = hooks_service._receive

    def after_lou(*args: Any) -> Any:
        monkeypatch.setattr(hooks_service, "_receive", receive)
        hooks_service.resume_hook(hook.token, {"approved": False, "comment": "Numbers."}, by="lou")
        return receive(*args)

    monkeypatch.setattr(hooks_service, "_receive", after_lou)
    response = answer(browser, hook, "approve", "Fine.")
    assert response.status_code == 409
    assert "Already rejected by lou 0 s ago" in text_of(response)
    assert "'Numbers.'" in text_of(response)
    assert "Fine." in text_of(response)
    assert again(hook).answered_by_label == "lou"


def test_hook_that_is_gone_by_the_time(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = HookFactory()
    find = hooks_service.find_hook

    def find_nothing(token: str) -> Any:
        hook.run.delete()
        return find(token)

    monkeypatch.setattr(hooks_service, "find_hook", find_nothing)
    assert answer(browser, hook).status_code == 404


def test_onlooker_can_not_answer_by_hand(onlooker: Client) -> None:
    hook = HookFactory()
    response = answer(onlooker, hook, "approve", "Let me.")
    assert response.status_code == 403
    assert "takes the permission to answer hooks" in text_of(response)
    assert "Let me." in text_of(response)
    assert again(hook).status == Hook.Status.PENDING


def test_permission_lost_between_page_and_click(browser: Client, dana: Any) -> None:
    hook = HookFactory()
    assert "Approve" in text_of(browser.get(address(hook)))
    dana.user_permissions.remove(Permission.objects.get(codename="review_hook"))
    response = answer(browser, hook, "approve", "Fine.")
    assert response.status_code == 403
    assert "Fine." in text_of(response)
    assert again(hook).status == Hook.Status.PENDING


@pytest.mark.parametrize("permissions", [["review_hook"], []])
def test_who_may_not_look_may_not_answer_here(permissions: list[str]) -> None:
    hook = HookFactory()
    stranger = browser_of(UserFactory(staff=True, permissions=permissions))
    assert answer(stranger, hook).status_code == 403
    assert again(hook).status == Hook.Status.PENDING


@pytest.mark.parametrize("change", [{"is_active": False}, {"is_staff": False}])
def test_deactivated_reviewer_is_sent_to_log_in(browser: Client, dana: Any, change: dict[str, Any]) -> None:
    hook = HookFactory()
    type(dana).objects.update(**change)
    assert answer(browser, hook)["Location"].startswith("/admin/login/")
    assert again(hook).status == Hook.Status.PENDING


def test_hook_put_to_others_is_not_theirs_by_number(browser: Client) -> None:
    mine, others = HookFactory(), HookFactory(reviewers=["email:lou@example.com"])
    assert answer(browser, others, "approve", "Mine now.", id=str(mine.pk)).status_code == 403
    assert {again(mine).status, again(others).status} == {Hook.Status.PENDING}


def test_own_run_is_not_theirs_to_review(browser: Client, dana: Any) -> None:
    hook = HookFactory(run__started_by=dana)
    response = answer(browser, hook)
    assert response.status_code == 403
    assert "whoever started the run can not answer its questions" in text_of(response)
    assert again(hook).status == Hook.Status.PENDING


@pytest.mark.parametrize("junk", ["4711", "abc", "9" * 40, "%00", "1/2"])
def test_unknown_hook_is_not_found(browser: Client, junk: str) -> None:
    assert browser.post(f"{HOOKS}{junk}/answer/", {"decision": "approve"}).status_code == 404


@pytest.mark.parametrize("method", ["get", "head", "options", "put", "delete"])
def test_whatever_is_no_post_changes_nothing(browser: Client, method: str) -> None:
    hook = HookFactory()
    url = f"{address(hook, 'answer')}?decision=approve&comment=x"
    response = getattr(browser, method)(url)
    assert (response.status_code, response["Location"]) == (302, address(hook))
    assert again(hook).status == Hook.Status.PENDING


def test_form_of_another_site_is_refused(dana: Any) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(dana)
    hook = HookFactory()
    assert answer(client, hook).status_code == 403
    assert again(hook).status == Hook.Status.PENDING
    (form,) = [f for f in parsed(client.get(address(hook))).forms if "comment" in f.fields]
    assert client.post(form.action, {**form.fields, "decision": "approve"}).status_code == 302
    assert again(hook).status == Hook.Status.RECEIVED


def test_answer_keeps_the_filters_of_the_list(browser: Client) -> None:
    hook = HookFactory()
    query = "?_changelist_filters=name%3Dapprove"
    sent = {"decision": "approve", "seen": digest_of(again(hook))}
    response = browser.post(f"{address(hook, 'answer')}{query}", sent)
    assert response["Location"] == f"{address(hook)}{query}"


def test_schema_that_is_gone_is_said_to_be(browser: Client) -> None:
    hook = HookFactory(schema=f"{__name__}:Gone")
    assert browser.get(address(hook)).status_code == 200
    response = answer(browser, hook, answer="{}")
    assert response.status_code == 500
    assert "can not be loaded" in text_of(response)
    assert again(hook).status == Hook.Status.PENDING
