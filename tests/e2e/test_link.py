"""From the mail to the answer: somebody who never saw the product, on a phone."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from django_stephooks.models import Event, Hook, Run
from django_stephooks.services.hooks import resume_hook
from tests.admin.pages import address
from tests.review.visiting import path_of

from . import newsroom
from .conftest import PHONE
from .looking import SIDEWAYS, small_targets
from .newsroom import DANA, QUESTION, answer_of

AGENTS = [
    "Mozilla/5.0 (compatible; Microsoft Defender for Office 365)",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 BingPreview/1.0b",
    "Proofpoint URL Defense",
    "Mimecast-URL-Protection",
    "Barracuda Sentinel (EE)",
    "GoogleImageProxy",
    "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 Safari/604.1",
    "curl/8.5.0",
]


@pytest.fixture
def phone(open_as: Callable[..., Page]) -> Page:
    """A phone that nobody has logged in with."""
    return open_as(None, viewport=PHONE, has_touch=True, is_mobile=True)


def link_in(mail: Any) -> str:
    """The address that the mail's button leads to."""
    ((html, _kind),) = mail.alternatives
    (address,) = set(re.findall(r'href="([^"]+)"', html))
    assert address in mail.body
    return str(address)


def state() -> list[Any]:
    return [list(model.objects.order_by("pk").values()) for model in (Hook, Run, Event)]


def open_without_a_browser(address: str, method: str, agent: str) -> int:
    request = urllib.request.Request(address, method=method, headers={"User-Agent": agent})  # noqa: S310
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as response:
        return int(response.status)


def test_editor_on_a_phone_gets_the_mail_opens_the_link_and_approves(
    phone: Page, mailoutbox: list[Any]
) -> None:
    hook = newsroom.ask(recipients=[DANA])
    (mail,) = mailoutbox
    assert mail.to == [DANA]
    phone.goto(link_in(mail))
    expect(phone.get_by_role("heading", level=1)).to_have_text(QUESTION)
    expect(phone.get_by_role("deletion").filter(has_text="two")).to_be_visible()
    expect(phone.get_by_role("insertion").filter(has_text="three")).to_be_visible()
    assert phone.evaluate(SIDEWAYS) == []
    assert small_targets(phone) == []
    phone.get_by_label("Comment").fill("Well checked.")
    phone.get_by_role("button", name="Approve").tap()
    expect(phone.get_by_role("heading", level=1)).to_have_text("You approved this.")
    assert phone.evaluate(SIDEWAYS) == []
    assert answer_of(hook) == (
        Hook.Status.RECEIVED,
        {"approved": True, "comment": "Well checked.", "reviewer": DANA},
        f"link sent to {DANA}",
    )
    assert Run.objects.get(pk=hook.run_id).result == "published"
    assert phone.context.cookies() == []


def test_scanners_open_every_link_first_and_a_real_browser_then_decides(
    phone: Page, mailoutbox: list[Any], settings: Any, site: str
) -> None:
    settings.STEPHOOKS = {**settings.STEPHOOKS, "LINK_THROTTLE": None}
    hook = newsroom.ask(recipients=[DANA])
    link = link_in(mailoutbox[0])
    before = state()
    for agent in AGENTS:
        for method in ("HEAD", "GET", "OPTIONS", "GET"):
            assert open_without_a_browser(link, method, agent) == 200
    assert state() == before
    # As from a mail program in the browser: the first request comes from another site.
    response = phone.goto(link, referer="https://mail.example.org/inbox")
    assert response is not None
    assert response.headers["referrer-policy"] == "same-origin"
    with phone.expect_request(lambda request: request.method == "POST") as sent:
        phone.get_by_role("button", name="Approve").tap()
    # "null" is what browsers send if the page's Referrer-Policy forbids more.
    assert sent.value.headers["origin"] == site
    answer = sent.value.response()
    assert answer is not None
    assert answer.status == 200
    expect(phone.get_by_role("heading", name="You approved this.")).to_be_visible()
    assert answer_of(hook)[0] == Hook.Status.RECEIVED


def test_page_asks_nobody_else_for_anything(phone: Page, site: str) -> None:
    asked: list[str] = []
    phone.on("request", lambda request: asked.append(request.url))
    hook = newsroom.ask()
    phone.goto(path_of(hook))
    assert len(asked) > 1
    assert [url for url in asked if not url.startswith((f"{site}/", "data:"))] == []


def test_rejecting_without_a_comment_is_refused_and_burns_nothing(phone: Page) -> None:
    hook = newsroom.ask()
    phone.goto(path_of(hook))
    phone.get_by_role("button", name="Reject").tap()
    comment = phone.get_by_label("Comment")
    expect(comment).to_have_attribute("aria-invalid", "true")
    expect(comment).to_have_accessible_description(re.compile("Say why"))
    assert phone.evaluate(SIDEWAYS) == []
    assert answer_of(hook)[0] == Hook.Status.PENDING
    comment.fill("The figures don't add up.")
    phone.get_by_role("button", name="Reject").tap()
    expect(phone.get_by_role("heading", level=1)).to_have_text("You rejected this.")
    assert Run.objects.get(pk=hook.run_id).result == "spiked: The figures don't add up."


def test_who_comes_too_late_is_told_who_was_first_and_keeps_what_they_wrote(phone: Page, dana: Any) -> None:
    hook = newsroom.ask()
    phone.goto(path_of(hook, "kim@example.com"))
    phone.get_by_label("Comment").fill("Fine by me,\nand well written.")
    answer = {"approved": False, "comment": "The numbers don't add up.", "reviewer": "dana"}
    resume_hook(hook.token, answer, by=dana)
    phone.get_by_role("button", name="Approve").tap()
    notice = phone.get_by_role("status")
    expect(notice).to_contain_text("Already rejected by dana")
    expect(notice).to_contain_text("The numbers don't add up.")
    expect(phone.get_by_label("What you wrote, to copy")).to_have_value("Fine by me,\nand well written.")
    expect(phone.get_by_role("button", name="Approve")).to_have_count(0)
    assert answer_of(hook)[1] == answer


def test_link_works_without_javascript(open_as: Callable[..., Page]) -> None:
    hook = newsroom.ask()
    page = open_as(None, path_of(hook), java_script_enabled=False, viewport=PHONE)
    page.get_by_label("Comment").fill("Good.")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("You approved this.")
    assert answer_of(hook)[1]["comment"] == "Good."


def test_link_works_by_keyboard_alone_and_enter_in_a_field_decides_nothing(
    open_as: Callable[..., Page],
) -> None:
    hook = newsroom.ask()
    page = open_as(None, path_of(hook))
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == "comment":
            break
    page.keyboard.type("By hand.")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Approve")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Reject")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("You approved this.")
    assert answer_of(hook)[1]["comment"] == "By hand."


def test_going_back_after_the_answer_shows_what_became_of_it(phone: Page) -> None:
    hook = newsroom.ask()
    phone.goto(path_of(hook))
    phone.get_by_role("button", name="Approve").tap()
    expect(phone.get_by_role("heading", name="You approved this.")).to_be_visible()
    phone.go_back()
    phone.goto(path_of(hook))
    expect(phone.get_by_role("status")).to_contain_text(f"Already approved by link sent to {DANA}")
    assert Event.objects.filter(run=hook.run, type=Event.Type.HOOK_RECEIVED).count() == 1


def test_new_links_that_the_desk_sends_end_the_old_ones(
    phone: Page, open_as: Callable[..., Page], dana: Any, mailoutbox: list[Any]
) -> None:
    hook = newsroom.ask(recipients=[DANA])
    desk = open_as(dana, address(hook))
    desk.get_by_role("link", name="Send new links…").click()
    desk.get_by_role("button", name="Send new links").click()
    expect(desk.get_by_text("Sent 1 new link.")).to_be_visible()
    old, new = mailoutbox
    phone.goto(link_in(old))
    expect(phone.get_by_role("heading", level=1)).to_have_text("This link does not work any more")
    phone.goto(link_in(new))
    phone.get_by_role("button", name="Approve").tap()
    expect(phone.get_by_role("heading", name="You approved this.")).to_be_visible()
    assert answer_of(hook)[0] == Hook.Status.RECEIVED


def test_tapping_twice_answers_once(phone: Page) -> None:
    hook = newsroom.ask()
    phone.goto(path_of(hook))
    phone.get_by_role("button", name="Approve").dblclick()
    said = phone.get_by_role("heading", name="You approved this.")
    expect(said.or_(phone.get_by_text("Already approved by link sent to"))).to_be_visible()
    assert Event.objects.filter(run=hook.run, type=Event.Type.HOOK_RECEIVED).count() == 1
