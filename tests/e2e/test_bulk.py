"""Many questions at once: first it is said what will become of each."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page, expect

from django_stephooks.models import Hook, Run
from tests.admin.pages import HOOKS
from tests.factories import HookFactory, RunFactory, UserFactory

from .newsroom import answer_of
from .pages import rejected, select_all

Open = Callable[..., Page]


def group(page: Page, heading: str) -> Locator:
    """The questions under this heading."""
    section = page.locator("section").filter(has=page.get_by_role("heading", name=heading))
    return section.get_by_role("listitem")


def questions(dana: Any) -> dict[str, Hook]:
    """Three that Dana may answer; one for Kim alone, and one that Dana herself has asked."""
    kim = UserFactory(username="kim", reviewer=True)
    own = RunFactory(suspended=True, started_by=dana)
    return {
        "fog": HookFactory(title="Publish 'Fog'?"),
        "rain": HookFactory(title="Publish 'Rain'?"),
        "snow": HookFactory(title="Publish 'Snow'?"),
        "kim": HookFactory(title="Publish 'Kim'?", reviewers=[f"user:{kim.pk}"]),
        "own": HookFactory(title="Publish 'Dana'?", run=own),
    }


def statuses(hooks: dict[str, Hook]) -> dict[str, str]:
    return {name: answer_of(hook)[0] for name, hook in hooks.items()}


def approve_the_selected(page: Page, hooks: dict[str, Hook]) -> None:
    # Somebody is faster with one while Dana still looks at the list.
    rejected(hooks["snow"], by=UserFactory(username="robin", reviewer=True))
    select_all(page, "Approve selected…")
    expect(page.get_by_role("heading", level=1)).to_have_text("Approve 2 questions?")
    for heading, titles in {
        "Will be approved": ("Fog", "Rain"),
        "Already answered": ("Snow",),
        "Not yours to review": ("Kim", "Dana"),
    }.items():
        expect(group(page, heading)).to_have_count(len(titles))
        for title in titles:
            expect(group(page, heading).filter(has_text=f"Publish '{title}'?")).to_be_visible()
    expect(group(page, "Already answered")).to_contain_text("rejected by robin")
    assert statuses(hooks)["fog"] == Hook.Status.PENDING
    page.get_by_label("Comment").fill("All well checked.")
    page.get_by_role("button", name="Approve 2").click()
    result = "2 approved, 1 already answered, 2 not yours to review."
    expect(page.get_by_text("2 approved")).to_have_text(result)
    assert statuses(hooks) == {
        "fog": Hook.Status.RECEIVED,
        "rain": Hook.Status.RECEIVED,
        "snow": Hook.Status.RECEIVED,
        "kim": Hook.Status.PENDING,
        "own": Hook.Status.PENDING,
    }
    assert answer_of(hooks["snow"])[2] == "robin"
    payload = {"approved": True, "comment": "All well checked.", "reviewer": "dana"}
    assert answer_of(hooks["fog"]) == (Hook.Status.RECEIVED, payload, "dana")
    assert Run.objects.get(pk=hooks["rain"].run_id).status == Run.Status.COMPLETED


def test_bulk_tells_what_will_become_of_each_and_counts_what_did(open_as: Open, dana: Any) -> None:
    hooks = questions(dana)
    approve_the_selected(open_as(dana, HOOKS), hooks)


def test_bulk_works_without_javascript(open_as: Open, dana: Any) -> None:
    hooks = questions(dana)
    approve_the_selected(open_as(dana, HOOKS, java_script_enabled=False), hooks)


def test_bulk_rejection_needs_a_comment(open_as: Open, dana: Any) -> None:
    hooks = questions(dana)
    page = open_as(dana, HOOKS)
    select_all(page, "Reject selected…")
    page.get_by_role("button", name="Reject 3").click()
    expect(page.get_by_label("Comment")).to_have_attribute("aria-invalid", "true")
    assert Hook.Status.RECEIVED not in statuses(hooks).values()
    page.get_by_label("Comment").fill("Not tonight.")
    page.get_by_role("button", name="Reject 3").click()
    expect(page.get_by_text("3 rejected")).to_be_visible()
    assert answer_of(hooks["rain"])[1]["comment"] == "Not tonight."


def test_list_goes_by_urgency_and_its_counts_lead_on(open_as: Open, dana: Any) -> None:
    questions(dana)
    HookFactory(title="Send the correction?", overdue=True)
    page = open_as(dana, HOOKS)
    rows = page.locator("#result_list").get_by_role("row")
    expect(rows.nth(1)).to_contain_text("Send the correction?")
    expect(rows).to_have_count(7)
    page.get_by_role("link", name="1 overdue").click()
    expect(rows).to_have_count(2)
    # The list is left as it was found.
    rows.nth(1).get_by_role("link").click()
    page.get_by_role("button", name="Approve", exact=True).click()
    page.locator(".breadcrumbs").get_by_role("link", name="Hooks", exact=True).click()
    expect(page).to_have_url(re.compile("due=overdue"))
