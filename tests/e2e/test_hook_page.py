"""The page of a question in the admin: read, decide, and trust that it counted."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from playwright.sync_api import Locator, Page, Route, expect

from django_stephooks.models import Event, Hook, Run
from tests.admin.pages import address
from tests.factories import UserFactory

from . import newsroom
from .conftest import DESKTOP, PHONE
from .newsroom import HEADLINE, QUESTION, answer_of

Open = Callable[..., Page]


def byline(page: Page) -> Locator:
    """What did not change: folded, at first."""
    return page.get_by_text("Sam Okafor", exact=True)


def test_reviewer_logs_in_reads_diff_and_story_and_approves(open_as: Open, dana: Any) -> None:
    hook = newsroom.ask()
    page = open_as(None, "/admin/")
    page.get_by_label("Username").fill("dana")
    page.get_by_label("Password").fill("password")
    page.get_by_role("button", name="Log in").click()
    panel = page.get_by_role("region", name="Awaiting your review")
    panel.get_by_role("link", name=QUESTION).click()

    expect(page.get_by_role("heading", level=1)).to_have_text(QUESTION)
    expect(page.get_by_role("deletion").filter(has_text="two")).to_have_text("removed: two")
    expect(page.get_by_role("insertion").filter(has_text="three")).to_have_text("added: three")
    expect(byline(page)).to_be_hidden()
    page.get_by_text("2 unchanged rows").click()
    expect(byline(page)).to_be_visible()
    story = page.get_by_role("listitem").filter(has=page.get_by_role("time"))
    expect(story.first).to_contain_text("Run started by sam")
    expect(page.locator("[aria-current=step]")).to_contain_text("Waiting")

    page.get_by_label("Comment").fill("Well checked.")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_text(f"Approved. {QUESTION}")).to_be_visible()
    expect(page.get_by_role("blockquote")).to_have_text("Well checked.")
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    payload = {"approved": True, "comment": "Well checked.", "reviewer": "dana"}
    assert answer_of(hook) == (Hook.Status.RECEIVED, payload, "dana")
    assert Run.objects.get(pk=hook.run_id).result == "published"
    assert LogEntry.objects.get().user == dana


def test_rejecting_without_a_comment_is_refused_and_nothing_is_lost(open_as: Open, dana: Any) -> None:
    hook = newsroom.ask(newsroom.lay_out)
    page = open_as(dana, address(hook))
    page.get_by_label("Remarks").fill("On the left, please.")
    page.get_by_label("Page").fill("33")
    page.get_by_role("button", name="Reject").click()
    expect(page.get_by_label("Page")).to_have_accessible_description(re.compile("less than or equal to 32"))
    expect(page.get_by_label("Page")).to_be_focused()
    expect(page.get_by_label("Remarks")).to_have_value("On the left, please.")
    assert answer_of(hook)[0] == Hook.Status.PENDING

    hook = newsroom.ask()
    page.goto(address(hook))
    page.get_by_label("Comment").fill("   ")
    page.get_by_role("button", name="Reject").click()
    comment = page.get_by_label("Comment")
    expect(comment).to_have_accessible_description(re.compile("Say why"))
    expect(comment).to_be_focused()
    assert answer_of(hook)[0] == Hook.Status.PENDING
    comment.fill("Wrong figures.")
    page.get_by_role("button", name="Reject").click()
    expect(page.get_by_text(f"Rejected. {QUESTION}")).to_be_visible()
    assert Run.objects.get(pk=hook.run_id).result == "spiked: Wrong figures."


def test_second_reviewer_is_told_who_was_first_and_keeps_what_they_wrote(open_as: Open, dana: Any) -> None:
    kim = UserFactory(username="kim", reviewer=True)
    hook = newsroom.ask()
    first, second = open_as(dana, address(hook)), open_as(kim, address(hook))
    second.get_by_label("Comment").fill("Fine by me,\nand well written.")
    first.get_by_label("Comment").fill("The numbers don't add up.")
    first.get_by_role("button", name="Reject").click()
    expect(first.get_by_text(f"Rejected. {QUESTION}")).to_be_visible()

    second.get_by_role("button", name="Approve", exact=True).click()
    alert = second.get_by_role("alert")
    expect(alert).to_contain_text("Already rejected by dana")
    expect(alert).to_contain_text("'The numbers don't add up.'")
    expect(second.get_by_label("What you wrote, to copy")).to_have_value("Fine by me,\nand well written.")
    expect(second.get_by_role("button", name="Approve")).to_have_count(0)
    assert answer_of(hook)[2] == "dana"
    assert Event.objects.filter(run=hook.run, type=Event.Type.HOOK_RECEIVED).count() == 1


def test_what_changed_meanwhile_is_shown_before_it_is_approved(open_as: Open, dana: Any) -> None:
    hook = newsroom.ask()
    page = open_as(dana, address(hook))
    page.get_by_label("Comment").fill("Fine.")
    Hook.objects.filter(pk=hook.pk).update(description="Now with a third figure.")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("has changed since you opened this page")
    expect(page.get_by_text("Now with a third figure.")).to_be_visible()
    expect(page.get_by_label("Comment")).to_have_value("Fine.")
    assert answer_of(hook)[0] == Hook.Status.PENDING
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_text(f"Approved. {QUESTION}")).to_be_visible()


def test_approve_and_next_walks_through_the_queue(open_as: Open, dana: Any) -> None:
    first = newsroom.ask(timeout="1h")
    second = newsroom.ask(newsroom.lay_out)
    page = open_as(dana, address(first))
    page.get_by_role("button", name="Approve and next").click()
    expect(page.get_by_text(f"Approved. {QUESTION}")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text(str(second))
    expect(page.get_by_role("button", name="Approve and next")).to_have_count(0)
    assert answer_of(first)[0] == Hook.Status.RECEIVED
    assert answer_of(second)[0] == Hook.Status.PENDING


def test_buttons_can_not_be_pressed_twice_and_going_back_frees_them(open_as: Open, dana: Any) -> None:
    hook = newsroom.ask()
    page = open_as(dana, address(hook))
    sent: list[str] = []

    def hold(route: Route) -> None:
        sent.append(route.request.post_data or "")
        # The browser stays where it is, as it does while an answer takes long.
        route.fulfill(status=204)

    page.route("**/answer/**", hold)
    approve = page.locator("button[value=approve]").first
    reject = page.get_by_role("button", name="Reject")
    approve.click()
    expect(approve).to_have_text("Approving…")
    expect(approve).to_be_disabled()
    expect(reject).to_be_disabled()
    approve.click(force=True)
    reject.click(force=True)
    reject.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Comment")).to_be_editable()
    assert len(sent) == 1
    assert "decision=approve" in sent[0]
    # What Back does to a page that the browser has kept.
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
    expect(approve).to_have_text("Approve")
    expect(approve).to_be_enabled()
    expect(reject).to_be_enabled()
    page.unroute("**/answer/**")
    # And to one that it has to ask for again.
    page.goto("about:blank")
    page.go_back()
    approve.click()
    expect(page.get_by_text(f"Approved. {QUESTION}")).to_be_visible()
    assert Event.objects.filter(run=hook.run, type=Event.Type.HOOK_RECEIVED).count() == 1


def test_double_click_answers_once_and_says_so(open_as: Open, dana: Any) -> None:
    hook = newsroom.ask()
    page = open_as(dana, address(hook))
    page.get_by_role("button", name="Approve", exact=True).dblclick()
    expect(page.get_by_text(f"Approved. {QUESTION}")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    assert answer_of(hook)[2] == "dana"


def test_keys_lead_to_a_button_and_press_none(open_as: Open, dana: Any) -> None:
    hook = newsroom.ask()
    page = open_as(dana, address(hook))
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method))
    page.keyboard.press("r")
    expect(page.get_by_role("button", name="Reject")).to_be_focused()
    page.keyboard.press("a")
    expect(page.get_by_role("button", name="Approve", exact=True)).to_be_focused()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.get_by_label("Comment").click()
    page.keyboard.type("a rare ?")
    expect(page.get_by_label("Comment")).to_have_value("a rare ?")
    expect(dialog).to_be_hidden()
    assert "POST" not in sent
    assert answer_of(hook)[0] == Hook.Status.PENDING


def tab_to(page: Page, target: Any) -> None:
    """Press Tab until this has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if target.evaluate("element => element === document.activeElement"):
            return
    pytest.fail("Tab does not lead there.")


def test_all_of_it_works_by_keyboard_alone(open_as: Open, dana: Any) -> None:
    hook = newsroom.ask()
    page = open_as(dana, "/admin/")
    tab_to(page, page.get_by_role("main").get_by_role("link", name=QUESTION))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(QUESTION)
    tab_to(page, page.locator("summary").filter(has_text="2 unchanged rows"))
    page.keyboard.press("Enter")
    expect(byline(page)).to_be_visible()
    tab_to(page, page.get_by_label("Comment"))
    page.keyboard.type("By hand.")
    page.keyboard.press("Tab")
    approve = page.get_by_role("button", name="Approve", exact=True)
    expect(approve).to_be_focused()
    assert approve.evaluate("button => getComputedStyle(button).outlineStyle") != "none"
    page.keyboard.press("Enter")
    expect(page.get_by_text(f"Approved. {QUESTION}")).to_be_visible()
    assert answer_of(hook)[1]["comment"] == "By hand."


def test_enter_in_a_field_decides_nothing(open_as: Open, dana: Any) -> None:
    hook = newsroom.ask(newsroom.lay_out)
    page = open_as(dana, address(hook))
    page.get_by_label("Page").fill("7")
    page.get_by_label("Page").press("Enter")
    expect(page.get_by_role("button", name="Approve")).to_be_enabled()
    expect(page.get_by_label("Page")).to_have_value("7")
    assert answer_of(hook)[0] == Hook.Status.PENDING


def test_all_of_it_works_without_javascript(open_as: Open, dana: Any) -> None:
    hook = newsroom.ask()
    page = open_as(dana, "/admin/", java_script_enabled=False)
    page.get_by_role("main").get_by_role("link", name=QUESTION).click()
    page.get_by_text("2 unchanged rows").click()
    expect(byline(page)).to_be_visible()
    expect(page.get_by_role("button", name="Copy")).to_be_hidden()
    page.get_by_role("button", name="Reject").click()
    expect(page.get_by_text("Say why")).to_be_visible()
    page.get_by_label("Comment").fill("Wrong figures.")
    page.get_by_role("button", name="Reject").click()
    expect(page.get_by_text(f"Rejected. {QUESTION}")).to_be_visible()
    assert answer_of(hook)[1]["approved"] is False


def colors(page: Page) -> list[str]:
    page.evaluate("document.getAnimations().forEach(animation => animation.finish())")
    script = "e => [getComputedStyle(e).backgroundColor, getComputedStyle(document.body).backgroundColor]"
    found: list[str] = page.get_by_role("insertion").first.evaluate(script)
    return found


def test_dark_mode_comes_with_the_system_and_with_the_admin_s_own_switch(open_as: Open, dana: Any) -> None:
    page = open_as(dana, address(newsroom.ask()), color_scheme="light")
    light = colors(page)
    page.emulate_media(color_scheme="dark")
    dark = colors(page)
    assert not set(light) & set(dark)
    root = page.locator("html")
    while root.get_attribute("data-theme") != "light":
        page.get_by_role("button", name="Toggle theme").click()
    assert colors(page) == light
    page.emulate_media(color_scheme="light")
    while root.get_attribute("data-theme") != "dark":
        page.get_by_role("button", name="Toggle theme").click()
    assert colors(page) == dark


def test_answer_is_at_hand_on_a_phone_and_covers_nothing_for_good(open_as: Open, dana: Any) -> None:
    page = open_as(dana, address(newsroom.ask()), viewport=PHONE, has_touch=True, is_mobile=True)
    approve = page.get_by_role("button", name="Approve", exact=True)
    expect(approve).to_be_in_viewport(ratio=1)
    page.mouse.wheel(0, 10_000)
    expect(approve).to_be_in_viewport(ratio=1)
    last = page.locator("[aria-current=step]")
    expect(last).to_be_in_viewport(ratio=1)
    lowest, bar = last.bounding_box(), approve.bounding_box()
    assert lowest is not None
    assert bar is not None
    assert lowest["y"] + lowest["height"] <= bar["y"]


def test_raw_context_can_be_copied(open_as: Open, dana: Any) -> None:
    page = open_as(dana, address(newsroom.ask()), permissions=["clipboard-read", "clipboard-write"])
    page.get_by_text("Raw", exact=True).click()
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert f'"headline": "{HEADLINE}"' in copied


def test_print_has_what_was_asked_and_what_happened_but_no_form(open_as: Open, dana: Any) -> None:
    page = open_as(dana, address(newsroom.ask()), viewport=DESKTOP)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(byline(page)).to_be_visible()
    expect(page.get_by_role("heading", name="What happened")).to_be_visible()
    expect(page.get_by_role("button", name="Approve")).to_be_hidden()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(byline(page)).to_be_hidden()
