"""Every page there is, each in the states that it can be in: `PAGES` opens them by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from django.core import mail
from django.utils import timezone
from playwright.sync_api import Page, expect

from django_stephooks.models import Hook, Run
from django_stephooks.services.hooks import resume_hook
from django_stephooks.services.links import revoke_links
from django_stephooks.services.runs import cancel_run
from tests.admin.pages import HOOKS, RUNS, address
from tests.factories import HookFactory, RunFactory, UserFactory
from tests.review.visiting import path_of

from . import newsroom
from .newsroom import DANA

Open = Callable[..., Page]
GO = re.compile(r"^(Go|Run)$")  # Django 5.2 and 6.1

PAGES: dict[str, Callable[[Open, Any], Page]] = {}


def page(function: Callable[[Open, Any], Page]) -> Callable[[Open, Any], Page]:
    name = function.__name__.replace("_", " ")
    assert name not in PAGES, name
    PAGES[name] = function
    return function


def rejected(hook: Hook, by: Any = None) -> Hook:
    answer = {
        "approved": False,
        "comment": "The numbers don't add up.\nAsk the treasurer.",
        "reviewer": "kim",
    }
    resume_hook(hook.token, answer, by=by or UserFactory(username="kim", reviewer=True), channel="admin")
    return hook


def expired() -> Hook:
    context = {"before": newsroom.BEFORE, "after": newsroom.AFTER}
    hook: Hook = HookFactory(expired=True, title=newsroom.QUESTION, context=context)
    return hook


def cancelled() -> Hook:
    hook = newsroom.ask()
    cancel_run(hook.run)
    return hook


# --- the link ---


@page
def link_waiting(open_as: Open, dana: Any) -> Page:
    return open_as(None, path_of(newsroom.ask()))


@page
def link_with_all_unfolded(open_as: Open, dana: Any) -> Page:
    page = open_as(None, path_of(newsroom.ask()))
    for summary in page.locator("summary").all():
        summary.click()
    return page


@page
def link_refused_without_comment(open_as: Open, dana: Any) -> Page:
    page = open_as(None, path_of(newsroom.ask()))
    page.get_by_role("button", name="Reject").click()
    expect(page.get_by_text("Say why")).to_be_visible()
    return page


@page
def link_with_a_schema(open_as: Open, dana: Any) -> Page:
    return open_as(None, path_of(newsroom.ask(newsroom.lay_out)))


@page
def link_with_a_schema_refused(open_as: Open, dana: Any) -> Page:
    page = open_as(None, path_of(newsroom.ask(newsroom.lay_out)))
    page.get_by_label("Page").fill("33")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_label("Page")).to_have_attribute("aria-invalid", "true")
    return page


@page
def link_thanks(open_as: Open, dana: Any) -> Page:
    page = open_as(None, path_of(newsroom.ask()))
    page.get_by_label("Comment").fill("Well checked.\nThank you.")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("heading", name="You approved this.")).to_be_visible()
    return page


@page
def link_too_late(open_as: Open, dana: Any) -> Page:
    hook = newsroom.ask()
    page = open_as(None, path_of(hook))
    page.get_by_label("Comment").fill("Fine by me.")
    rejected(hook)
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_label("What you wrote, to copy")).to_be_visible()
    return page


@page
def link_changed_meanwhile(open_as: Open, dana: Any) -> Page:
    hook = newsroom.ask()
    page = open_as(None, path_of(hook))
    Hook.objects.filter(pk=hook.pk).update(description="Nothing changed, after all.")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("status")).to_contain_text("has changed since")
    return page


@page
def link_answered(open_as: Open, dana: Any) -> Page:
    return open_as(None, path_of(rejected(newsroom.ask())))


@page
def link_expired(open_as: Open, dana: Any) -> Page:
    return open_as(None, path_of(expired()))


@page
def link_cancelled(open_as: Open, dana: Any) -> Page:
    return open_as(None, path_of(cancelled()))


@page
def link_revoked(open_as: Open, dana: Any) -> Page:
    hook = newsroom.ask()
    path = path_of(hook)
    revoke_links(hook)
    return open_as(None, path)


@page
def link_cut_off(open_as: Open, dana: Any) -> Page:
    return open_as(None, path_of(newsroom.ask())[:-9])


@page
def link_that_is_not_for_you(open_as: Open, dana: Any) -> Page:
    UserFactory(username="gone", email="gone@example.com", is_active=False)
    return open_as(None, path_of(newsroom.ask(), "gone@example.com"))


@page
def mail_as_html(open_as: Open, dana: Any) -> Page:
    newsroom.ask(recipients=[DANA])
    (message,) = mail.outbox
    ((html, _kind),) = message.alternatives
    page = open_as(None)
    page.set_content(html)
    return page


# --- the desk ---


def some_hooks(dana: Any) -> Sequence[Hook]:
    """What a list may have: urgent and not, long and short, answered and not."""
    now = timezone.now()
    kim = UserFactory(username="kim", reviewer=True)
    hooks = [
        newsroom.ask(),
        HookFactory(title="Run the storm warning on page one?", expires_at=now + timedelta(minutes=40)),
        HookFactory(title="Send the correction about the ferry timetable?", overdue=True),
        HookFactory(title="Pay the photographer 480.00 EUR?"),
        HookFactory(title="Print Kim's column as it is?", reviewers=[f"user:{kim.pk}"]),
    ]
    rejected(newsroom.ask(), by=kim)
    HookFactory(title="Send the morning briefing at six?", expired=True)
    HookFactory(title="Interview the mayor?", cancelled=True)
    return hooks


@page
def front_page(open_as: Open, dana: Any) -> Page:
    some_hooks(dana)
    return open_as(dana, "/admin/")


@page
def list_of_hooks(open_as: Open, dana: Any) -> Page:
    some_hooks(dana)
    return open_as(dana, HOOKS)


@page
def list_of_all_hooks(open_as: Open, dana: Any) -> Page:
    some_hooks(dana)
    page = open_as(dana, HOOKS)
    page.get_by_role("group").filter(has_text="By status").get_by_role("link", name="All").click()
    expect(page.get_by_role("link", name="Interview the mayor?")).to_be_visible()
    return page


@page
def list_without_hooks(open_as: Open, dana: Any) -> Page:
    return open_as(dana, HOOKS)


@page
def hook_waiting(open_as: Open, dana: Any) -> Page:
    return open_as(dana, address(newsroom.ask()))


@page
def hook_with_all_unfolded(open_as: Open, dana: Any) -> Page:
    page = open_as(dana, address(newsroom.ask()))
    for summary in page.locator("main summary").all():
        if summary.is_visible():
            summary.click()
    return page


@page
def hook_waiting_with_a_next_one(open_as: Open, dana: Any) -> Page:
    hook = newsroom.ask()
    newsroom.ask()
    return open_as(dana, address(hook))


@page
def hook_with_its_keys(open_as: Open, dana: Any) -> Page:
    page = open_as(dana, address(newsroom.ask()))
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    return page


@page
def hook_with_a_schema(open_as: Open, dana: Any) -> Page:
    return open_as(dana, address(newsroom.ask(newsroom.lay_out)))


@page
def hook_with_a_schema_refused(open_as: Open, dana: Any) -> Page:
    page = open_as(dana, address(newsroom.ask(newsroom.lay_out)))
    page.get_by_label("Page").fill("33")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_label("Page")).to_have_attribute("aria-invalid", "true")
    return page


@page
def hook_refused_without_comment(open_as: Open, dana: Any) -> Page:
    page = open_as(dana, address(newsroom.ask()))
    page.get_by_role("button", name="Reject").click()
    expect(page.get_by_text("Say why")).to_be_visible()
    return page


@page
def hook_too_late(open_as: Open, dana: Any) -> Page:
    hook = newsroom.ask()
    page = open_as(dana, address(hook))
    page.get_by_label("Comment").fill("Fine by me.")
    rejected(hook)
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_label("What you wrote, to copy")).to_be_visible()
    return page


@page
def hook_answered(open_as: Open, dana: Any) -> Page:
    return open_as(dana, address(rejected(newsroom.ask())))


@page
def hook_expired(open_as: Open, dana: Any) -> Page:
    return open_as(dana, address(expired()))


@page
def hook_cancelled(open_as: Open, dana: Any) -> Page:
    return open_as(dana, address(cancelled()))


@page
def hook_of_a_failed_run(open_as: Open, dana: Any) -> Page:
    """As somebody who may see runs: to others no page shows where the code was."""
    hook = newsroom.ask(newsroom.print_paper)
    resume_hook(hook.token, {"approved": True, "comment": "Print it.", "reviewer": "dana"}, by=dana)
    page = open_as(operator(), address(hook))
    page.get_by_text("Traceback", exact=True).click()
    return page


@page
def hook_that_is_not_for_you(open_as: Open, dana: Any) -> Page:
    hook = newsroom.ask()
    Hook.objects.filter(pk=hook.pk).update(reviewers=["user:0"])
    return open_as(dana, address(hook))


@page
def hook_that_was_mailed(open_as: Open, dana: Any) -> Page:
    return open_as(dana, address(newsroom.ask(recipients=[DANA, "kim@example.com"])))


@page
def hook_to_send_new_links_to(open_as: Open, dana: Any) -> Page:
    page = open_as(dana, address(newsroom.ask(recipients=[DANA, "kim@example.com"])))
    page.get_by_role("link", name="Send new links…").click()
    return page


@page
def history_of_a_hook(open_as: Open, dana: Any) -> Page:
    page = open_as(dana, address(newsroom.ask()))
    page.get_by_role("button", name="Approve").click()
    page.get_by_role("link", name="History").click()
    return page


def select_all(page: Page, action: str) -> None:
    for box in page.get_by_role("row").get_by_role("checkbox").all():
        box.check()
    page.get_by_role("combobox", name="Action").select_option(action)
    # In 6.1 the heads of columns are buttons, too.
    page.get_by_role("button", name=GO).and_(page.locator("button")).click()


def bulk(open_as: Open, dana: Any, action: str) -> Page:
    hooks = some_hooks(dana)
    page = open_as(dana, HOOKS)
    rejected(hooks[3], by=UserFactory(username="robin", reviewer=True))
    select_all(page, action)
    return page


@page
def bulk_approval(open_as: Open, dana: Any) -> Page:
    return bulk(open_as, dana, "Approve selected…")


@page
def bulk_rejection_refused_without_comment(open_as: Open, dana: Any) -> Page:
    page = bulk(open_as, dana, "Reject selected…")
    page.get_by_role("button", name="Reject").click()
    expect(page.get_by_label("Comment")).to_have_attribute("aria-invalid", "true")
    return page


@page
def bulk_result(open_as: Open, dana: Any) -> Page:
    page = bulk(open_as, dana, "Approve selected…")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("approved", exact=False).first).to_be_visible()
    return page


# --- runs, for those who look after them ---


def operator() -> Any:
    return UserFactory(
        username="ollie", staff=True, permissions=["view_run", "view_hook", "cancel_run", "retry_run"]
    )


@page
def list_of_runs(open_as: Open, dana: Any) -> Page:
    some_hooks(dana)
    RunFactory(failed=True)
    return open_as(UserFactory(username="lou", staff=True, permissions=["view_run"]), RUNS)


@page
def run_waiting(open_as: Open, dana: Any) -> Page:
    return open_as(operator(), address(newsroom.ask().run))


@page
def run_completed(open_as: Open, dana: Any) -> Page:
    return open_as(operator(), address(rejected(newsroom.ask()).run))


@page
def run_failed(open_as: Open, dana: Any) -> Page:
    hook = newsroom.ask(newsroom.print_paper)
    resume_hook(hook.token, {"approved": True, "comment": "Print it.", "reviewer": "dana"}, by=dana)
    assert Run.objects.get(pk=hook.run_id).status == Run.Status.FAILED
    page = open_as(operator(), address(hook.run))
    page.get_by_text("Traceback", exact=True).first.click()
    return page


@page
def run_to_cancel(open_as: Open, dana: Any) -> Page:
    page = open_as(operator(), address(newsroom.ask().run))
    page.get_by_role("link", name="Cancel…").click()
    return page
