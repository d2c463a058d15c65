"""The readers' desk of the demo: a visitor and a colleague, each in a browser of their own."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core import mail
from django.db import connection
from playwright.sync_api import Page, Route, expect

from demo_project.support import clerk
from demo_project.support.models import Conversation
from django_stephooks import resume_hook
from django_stephooks.api import streams
from django_stephooks.models import Hook, Run
from tests.support import visiting
from tests.support.conftest import open_the_newsroom
from tests.support.visiting import ASKING, PAPER, PASSING_ON, RULE

from .conftest import PHONE
from .looking import faults, small_targets

Open = Callable[..., Page]

NOON = "The boy brings <b>another one</b> at noon."


@pytest.fixture(autouse=True)
def newsroom(settings: Any, site: str) -> Iterator[None]:
    open_the_newsroom(settings)
    settings.STEPHOOKS = {
        **settings.STEPHOOKS,
        "RUNTIME": "tests.streaming.runtimes.Silent",
        # So that no thread of the server is with a stream for long after its browser is gone.
        "STREAM_LIFETIME": "1s",
    }
    yield
    deadline = time.monotonic() + 20
    while streams._holding and time.monotonic() < deadline:
        time.sleep(0.05)


def says(page: Page) -> list[str]:
    """Who said what, as the visitor sees it."""
    paragraphs = page.get_by_role("log").get_by_role("paragraph")
    return [" ".join(text.split()) for text in paragraphs.all_inner_texts()]


def begin_work() -> threading.Thread:
    """A worker comes, in a thread of its own: Playwright's event loop is in that of the test."""

    def worker() -> None:
        try:
            visiting.work()
        finally:
            connection.close()

    thread = threading.Thread(target=worker)
    thread.start()
    return thread


def work() -> None:
    begin_work().join()


def visit(open_as: Open, message: str = PAPER, **options: Any) -> Page:
    page = open_as(None, "/", **options)
    page.get_by_role("link", name="Ask us").click()
    page.get_by_label("Your question").fill(message)
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("log")).to_contain_text(message)
    return page


def asked_colleague(page: Page) -> None:
    expect(page.get_by_role("status")).to_contain_text("A colleague has been asked")


def test_colleague_answers_in_the_admin_and_the_chat_goes_on(open_as: Open, dana: Any) -> None:
    visitor = visit(open_as)
    work()
    asked_colleague(visitor)
    assert says(visitor) == [f"You {PAPER}", f"The clerk {ASKING}"]
    expect(visitor.get_by_role("button", name="Send")).to_be_hidden()

    desk = open_as(dana, "/admin/")
    desk.get_by_role("link", name=f"A reader asks: {PAPER}").first.click()
    desk.get_by_role("textbox", name="Answer").fill(NOON)
    desk.get_by_role("button", name="Send the answer").click()
    expect(desk.get_by_role("button", name="Send the answer")).to_have_count(0)
    work()

    expect(visitor.get_by_role("log")).to_contain_text(PASSING_ON)
    whole = [f"You {PAPER}", f"The clerk {ASKING}", f"A colleague {NOON}", f"The clerk {PASSING_ON}"]
    assert says(visitor) == whole
    # What the script has put together is what the server keeps.
    visitor.get_by_label("Your question").fill("And the price?")
    visitor.get_by_role("button", name="Send").click()
    expect(visitor.get_by_role("log")).to_contain_text("And the price?")
    assert says(visitor)[: len(whole)] == whole
    work()
    expect(visitor.get_by_role("log")).to_contain_text(RULE)
    expect(visitor.get_by_text("3 questions left")).to_be_visible()


def test_colleague_on_a_phone_answers_by_the_link_in_the_mail(open_as: Open) -> None:
    visitor = visit(open_as)
    work()
    asked_colleague(visitor)
    (message,) = mail.outbox
    phone = open_as(None, re.findall(r"https?://\S+/review/\S+", message.body)[0], viewport=PHONE)
    phone.get_by_role("textbox", name="Answer").fill(NOON)
    phone.get_by_role("button", name="Send").first.click()
    expect(phone.get_by_role("button", name="Send")).to_have_count(0)
    work()
    expect(visitor.get_by_role("log")).to_contain_text(PASSING_ON)
    assert f"A colleague {NOON}" in says(visitor)


@pytest.fixture
def slow_words(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The model stops in the middle of a sentence until this is set."""
    go_on, lines = threading.Event(), clerk.ScriptedModel._stream

    def stream(self: Any, *args: Any, **options: Any) -> Any:
        for number, chunk in enumerate(lines(self, *args, **options)):
            if number == 4:
                assert go_on.wait(20)
            yield chunk

    monkeypatch.setattr(clerk.ScriptedModel, "_stream", stream)
    yield go_on
    go_on.set()


def test_words_are_seen_as_they_come(open_as: Open, slow_words: threading.Event) -> None:
    visitor = visit(open_as)
    thread = begin_work()
    expect(visitor.get_by_role("log")).to_contain_text("That is not in")
    assert says(visitor) == [f"You {PAPER}", "The clerk That is not in"]
    assert visitor.get_by_role("log").locator("[aria-busy=true]").count() == 1
    slow_words.set()
    thread.join()
    asked_colleague(visitor)
    assert says(visitor)[1:] == [f"The clerk {ASKING}"]


def test_who_loses_the_connection_sees_nothing_twice_and_misses_nothing(open_as: Open) -> None:
    visitor = visit(open_as)
    there_is_a_net = True

    def stream(route: Route) -> None:
        if there_is_a_net:
            route.continue_()
        else:
            route.abort()

    # The server ends each of its answers soon, so the browser comes again and again.
    visitor.route("**/stream/**", stream)
    work()
    asked_colleague(visitor)
    before = says(visitor)
    assert before == [f"You {PAPER}", f"The clerk {ASKING}"]
    with visitor.expect_request("**/stream/**"):
        pass
    assert says(visitor) == before

    there_is_a_net = False
    with visitor.expect_event("requestfailed"):
        pass
    resume_hook(Hook.objects.get().token, {"answer": NOON})
    work()
    assert says(visitor) == before

    there_is_a_net = True
    expect(visitor.get_by_role("log")).to_contain_text(PASSING_ON)
    assert says(visitor) == [*before, f"A colleague {NOON}", f"The clerk {PASSING_ON}"]
    expect(visitor.get_by_role("button", name="Send")).to_be_visible()


def test_conversation_works_without_javascript(open_as: Open) -> None:
    visitor = visit(open_as, java_script_enabled=False, viewport=PHONE)
    work()
    resume_hook(Hook.objects.get().token, {"answer": NOON})
    work()
    visitor.reload()
    assert says(visitor)[-1] == f"The clerk {PASSING_ON}"
    expect(visitor.get_by_role("button", name="Send")).to_be_visible()


STATES = ["new", "waiting", "answered", "refused", "failed", "used up"]


@pytest.mark.parametrize("state", STATES)
def test_page_is_accessible_and_fits_on_a_phone(state: str, open_as: Open) -> None:
    if state == "new":
        page = open_as(None, "/support/")
    else:
        page = visit(open_as, "The price?" if state in ("answered", "used up") else PAPER)
        if state == "failed":
            Run.objects.update(status=Run.Status.FAILED, due_at=None)
            page.reload()
        else:
            work()
    if state == "waiting":
        asked_colleague(page)
    if state == "answered":
        expect(page.get_by_role("button", name="Send")).to_be_visible()
    if state == "refused":
        asked_colleague(page)
        page.evaluate("document.getElementById('ask').hidden = false")
        page.get_by_label("Your question").fill("And now?")
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_text("One at a time")).to_be_visible()
    if state == "used up":
        Conversation.objects.update(credits=0)
        page.reload()
        expect(page.get_by_role("link", name="Start another one")).to_be_visible()
    assert faults(page, f"support {state}") + small_targets(page) == []
