"""Sending new links from the page of a question, and what it says of those that were mailed."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.core import mail
from django.test import Client
from django.utils import timezone

from django_stephooks.models import Event, Hook, Run
from django_stephooks.review.mailed import mailed
from django_stephooks.services.hooks import resume_hook
from django_stephooks.services.links import mail_runs, revoke_links, send_links
from django_stephooks.services.runs import cancel_run
from tests.clock import Clock
from tests.factories import HookFactory
from tests.review import workflows

from .conftest import browser_of
from .pages import HOOKS, UNREADABLE, address, again, parsed, text_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("tests.e2e.urls")]

ANN, BOB = "ann@example.com", "bob@example.com"
LINK = re.compile(r"https://testserver(/review/[A-Za-z0-9]+)")
OFFER = "Send new links…"


@pytest.fixture(autouse=True)
def site(settings: Any) -> None:
    settings.STEPHOOKS = {**settings.STEPHOOKS, "BASE_URL": "https://testserver"}
    mail_by(settings, "django.core.mail.backends.locmem.EmailBackend")


@pytest.fixture
def mailed_hook() -> Hook:
    """A question of which Ann and Bob were mailed links."""
    workflows.whom[:] = [BOB, ANN]
    workflows.asking.start()
    return Hook.objects.get()


def links() -> list[str]:
    """Those in the mails since this was asked before."""
    found = [LINK.search(str(message.body)) for message in mail.outbox]
    mail.outbox.clear()
    return [match[1] for match in found if match]


def mail_by(settings: Any, backend: str) -> None:
    if hasattr(mail, "mailers"):
        settings.MAILERS = {"default": {"BACKEND": backend}}
    else:  # before Django 6.1
        settings.EMAIL_BACKEND = backend


class NobodyListens:
    def __init__(self, **options: Any) -> None:
        pass

    def open(self) -> None:
        raise ConnectionRefusedError("Nobody listens at port 25.")

    def close(self) -> None:
        pass


def test_old_links_end_and_everybody_is_mailed_a_new_one(browser: Client, mailed_hook: Hook) -> None:
    old = links()
    page = parsed(browser.get(address(mailed_hook)))
    asked = browser.get(page.link(OFFER))
    assert ANN in text_of(asked)
    assert BOB in text_of(asked)
    (form,) = [form for form in parsed(asked).forms if form.action == address(mailed_hook, "links")]
    assert [button.text for button in form.buttons] == ["Send new links"]
    response = browser.post(form.action, form.fields, follow=True)
    assert response.redirect_chain == [(address(mailed_hook), 302)]
    assert "Sent 2 new links." in text_of(response)
    story = text_of(response).partition("What happened")[2]
    assert "Links revoked" in story
    assert "2 new links sent" in story
    assert '<li aria-current="step">' in response.content.decode().partition("Links revoked")[0]
    new = links()
    assert len(new) == 2
    visitor = Client()
    assert {visitor.get(link).status_code for link in old} == {410}
    assert {visitor.get(link).status_code for link in new} == {200}


def test_history_says_who_sent_new_links_but_not_to_whom(
    browser: Client, dana: Any, mailed_hook: Hook
) -> None:
    browser.post(address(mailed_hook, "links"))
    entry = LogEntry.objects.get()
    assert (entry.user_id, entry.object_id) == (dana.pk, str(mailed_hook.pk))
    assert entry.get_change_message() == "Sent 2 new links."
    assert Event.objects.get(type=Event.Type.LINKS_REVOKED).data["by"] == "dana"


def test_asking_for_the_page_changes_nothing(browser: Client, mailed_hook: Hook) -> None:
    (first, *_) = links()
    for method in ("get", "head", "options", "put"):
        getattr(browser, method)(address(mailed_hook, "links"))
    assert again(mailed_hook).token_version == 1
    assert links() == []
    assert not LogEntry.objects.exists()
    assert Client().get(first).status_code == 200


def test_only_links_to_this_question_end(browser: Client, mailed_hook: Hook) -> None:
    links()
    other = HookFactory()
    send_links(other, [ANN])
    (link,) = links()
    browser.post(address(mailed_hook, "links"), {"id": other.pk, "hook": other.pk})
    assert again(other).token_version == 1
    assert Client().get(link).status_code == 200


@pytest.mark.parametrize("junk", ["4711", "abc", "%00"])
def test_unknown_question_is_not_found(browser: Client, junk: str) -> None:
    assert browser.post(f"{HOOKS}{junk}/links/").status_code == 404


@pytest.mark.parametrize("method", ["get", "post"])
def test_it_takes_the_permission_to_answer_and_to_see(
    onlooker: Client, dana: Any, mailed_hook: Hook, method: str
) -> None:
    seen = text_of(onlooker.get(address(mailed_hook)))
    assert OFFER not in seen
    assert ANN not in seen
    assert getattr(onlooker, method)(address(mailed_hook, "links")).status_code == 403
    dana.user_permissions.remove(Permission.objects.get(codename="view_hook"))
    assert getattr(browser_of(dana), method)(address(mailed_hook, "links")).status_code == 403
    assert again(mailed_hook).token_version == 1


def test_permission_that_is_lost_after_the_page_was_asked_for(
    browser: Client, dana: Any, mailed_hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_stephooks.services.links.has_permission", lambda *args: False)
    response = browser.post(address(mailed_hook, "links"))
    assert response.status_code == 403
    assert ANN.encode() not in response.content
    assert again(mailed_hook).token_version == 1


def settled_by_now(hook: Hook, state: str) -> None:
    if state == "answered":
        resume_hook(hook.token, {"approved": True, "comment": "", "reviewer": "kim"}, by="kim")
    elif state == "cancelled":
        cancel_run(hook.run)
    else:
        Hook.objects.update(expires_at=timezone.now() - timedelta(minutes=1), on_timeout="return")


@pytest.mark.parametrize(
    ("state", "status", "words"),
    [
        ("answered", 409, "Already approved by kim"),
        ("expired", 410, "The deadline passed"),
        ("cancelled", 410, "This is no longer asked"),
    ],
)
def test_settled_question_gets_no_new_links(
    browser: Client, mailed_hook: Hook, state: str, status: int, words: str
) -> None:
    links()
    settled_by_now(mailed_hook, state)
    assert OFFER not in text_of(browser.get(address(mailed_hook)))
    response = browser.get(address(mailed_hook, "links"), follow=True)
    assert response.redirect_chain == [(address(mailed_hook), 302)]
    assert words in text_of(response)
    response = browser.post(address(mailed_hook, "links"))
    assert response.status_code == status
    assert words in text_of(response)
    (form,) = [form for form in parsed(response).forms if form.action == address(mailed_hook, "links")]
    assert not form.buttons
    assert again(mailed_hook).token_version == 1
    assert links() == []
    assert not LogEntry.objects.exists()


def test_question_that_nobody_was_mailed_about_has_no_links_to_renew(browser: Client) -> None:
    hook = HookFactory()
    text = text_of(browser.get(address(hook)))
    assert OFFER not in text
    assert "Mailed to" not in text
    response = browser.get(address(hook, "links"), follow=True)
    assert "Nobody was mailed a link to this question." in text_of(response)
    response = browser.post(address(hook, "links"))
    assert response.status_code == 409
    assert "Nobody was mailed a link" in text_of(response)
    assert again(hook).token_version == 1


# What became of the mails


def outcome(browser: Client, hook: Hook) -> str:
    """What the page of the question says after "Mailed to"."""
    return text_of(browser.get(address(hook))).partition("Mailed to ")[2].partition(" Asked ")[0]


def test_each_address_is_listed_once_with_when_it_was_mailed(browser: Client, mailed_hook: Hook) -> None:
    sent = [row.at for row in mailed(mailed_hook)]
    assert outcome(browser, mailed_hook).startswith(f"{ANN} Sent ")
    browser.post(address(mailed_hook, "links"))
    rows = mailed(again(mailed_hook))
    assert [row.address for row in rows] == [ANN, BOB]
    assert all(row.at and old and row.at > old for row, old in zip(rows, sent, strict=True))


def test_links_that_were_revoked_are_told(browser: Client, mailed_hook: Hook) -> None:
    assert "revoked" not in outcome(browser, mailed_hook)
    revoke_links(mailed_hook)
    assert outcome(browser, mailed_hook).count("this link was revoked") == 2


def test_mail_that_fails_says_why_and_when_it_is_tried_again(
    browser: Client, settings: Any, clock: Clock
) -> None:
    mail_by(settings, f"{__name__}.NobodyListens")
    hook = HookFactory()
    send_links(hook, [ANN])
    (row,) = mailed(hook)
    assert row.due_at is not None
    assert row.due_at > timezone.now()
    text = outcome(browser, hook)
    assert f"{ANN} Failing ConnectionRefusedError: Nobody listens at port 25. Next attempt:" in text


@pytest.mark.parametrize(
    ("changed", "mark", "note"),
    [
        (
            {"status": "failed", "result": None, "error": {"type": "a:B", "message": "No."}},
            "Failed",
            "B: No.",
        ),
        (
            {"status": "failed", "result": None, "error": UNREADABLE},
            "Failed",
            "an error that can not be read",
        ),
        ({"status": "failed", "result": None, "error": ["?"]}, "Failed", "an error that can not be read"),
        ({"status": "cancelled", "result": None}, "Not sent", ""),
        ({"status": "pending", "due_at": timezone.now(), "finished_at": None}, "Being sent", ""),
        ({"result": {"sent": False, "why": "They <b>left</b>."}}, "Not sent", "They <b>left</b>."),
        ({"result": UNREADABLE}, "Not sent", "what was recorded can not be read"),
        ({"result": "?"}, "Not sent", "what was recorded can not be read"),
    ],
)
def test_what_became_of_a_mail(browser: Client, changed: dict[str, Any], mark: str, note: str) -> None:
    hook = HookFactory()
    send_links(hook, [ANN])
    Run.objects.filter(pk=mail_runs(hook).get().pk).update(**changed)
    text = outcome(browser, hook)
    assert text.startswith(f"{ANN} {mark} ")
    assert text.endswith(note)
    assert b"<b>left</b>" not in browser.get(address(hook)).content


def test_mail_whose_address_can_not_be_read_is_listed(browser: Client, mailed_hook: Hook) -> None:
    mail_runs(mailed_hook).filter(pk=mail_runs(mailed_hook).first().pk).update(arguments=UNREADABLE)
    text = outcome(browser, mailed_hook)
    assert "an address that can not be read Sent" in text
    assert text.count("@example.com") == 1


def test_mails_of_other_questions_are_not_listed(mailed_hook: Hook) -> None:
    other = HookFactory()
    send_links(other, ["eve@example.com"])
    assert [row.address for row in mailed(other)] == ["eve@example.com"]
    assert [row.address for row in mailed(mailed_hook)] == [ANN, BOB]
