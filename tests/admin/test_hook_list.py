"""The list of questions: what waits first, and nothing loaded that could be large."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_stephooks.admin.paging import BoundedPaginator, count_up_to
from django_stephooks.models import Hook
from tests.factories import ArticleFactory, HookFactory, UserFactory

from .conftest import browser_of
from .pages import HOOKS, UNREADABLE, parsed, text_of

pytestmark = pytest.mark.django_db


def titles(response: Any) -> list[str]:
    return [hook.title for hook in response.context["cl"].result_list]


def test_opens_on_what_waits_soonest_deadline_first(browser: Client) -> None:
    now = timezone.now()
    HookFactory(title="No hurry")
    HookFactory(title="Tomorrow", expires_at=now + timedelta(days=1))
    HookFactory(title="In a minute", expires_at=now + timedelta(minutes=1))
    HookFactory(title="Overdue", overdue=True)
    for state in ("received", "expired", "cancelled", "past_deadline"):
        HookFactory(title=state, **{state: True})
    response = browser.get(HOOKS)
    assert titles(response) == ["Overdue", "In a minute", "Tomorrow", "No hurry"]
    assert [value for _, value in _choices(response, "status") if value] == ["Waiting"]


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ("received", {"received"}),
        ("expired", {"expired", "past_deadline"}),
        ("cancelled", {"cancelled"}),
        ("all", {"received", "expired", "past_deadline", "cancelled", "waiting"}),
    ],
)
def test_filter_by_status(browser: Client, status: str, shown: set[str]) -> None:
    HookFactory(title="waiting")
    for state in ("received", "expired", "cancelled", "past_deadline"):
        HookFactory(title=state, **{state: True})
    assert set(titles(browser.get(HOOKS, {"status": status}))) == shown


def test_newest_leads_the_list_of_all(browser: Client) -> None:
    HookFactory(title="waiting")
    for state in ("received", "expired"):
        HookFactory(title=state, **{state: True})
    assert titles(browser.get(HOOKS, {"status": "all"})) == ["expired", "received", "waiting"]


def test_filters_by_workflow_and_by_name(browser: Client) -> None:
    HookFactory(title="a", name="approve", run__workflow="one")
    HookFactory(title="b", name="sign", run__workflow="two")
    assert titles(browser.get(HOOKS, {"run__workflow": "two"})) == ["b"]
    assert titles(browser.get(HOOKS, {"name": "approve"})) == ["a"]


def test_search_by_words_of_the_question_and_by_run(browser: Client) -> None:
    tunnel = HookFactory(title="Publish 'Harbor tunnel'?")
    HookFactory(title="Publish 'Fog'?")
    assert titles(browser.get(HOOKS, {"q": "tunnel Harbor"})) == [tunnel.title]
    assert titles(browser.get(HOOKS, {"q": f"#{tunnel.run_id}"})) == [tunnel.title]
    assert titles(browser.get(HOOKS, {"q": str(tunnel.run_id)})) == [tunnel.title]
    assert titles(browser.get(HOOKS, {"q": "9" * 30, "status": "all"})) == []
    assert titles(browser.get(HOOKS, {"q": "9" * 18, "status": "all"})) == []


def test_order_can_be_chosen(browser: Client) -> None:
    for title in ("b", "a", "c"):
        HookFactory(title=title)
    assert titles(browser.get(HOOKS, {"o": "1"})) == ["a", "b", "c"]


def test_status_is_a_word_and_times_are_for_machines_too(browser: Client) -> None:
    hook = HookFactory(overdue=True)
    html = browser.get(HOOKS).content.decode()
    assert '<span class="stephooks-status stephooks-status--overdue">Overdue</span>' in html
    assert f'<time datetime="{timezone.localtime(hook.expires_at).isoformat()}">' in html
    assert "ago)" in html


def test_hook_without_a_title_is_called_by_its_name(browser: Client) -> None:
    HookFactory(title="", name="human_review")
    assert "human review" in text_of(browser.get(HOOKS))


def test_number_of_queries_does_not_depend_on_the_number_of_rows(browser: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            assert browser.get(HOOKS).status_code == 200
        return len(captured)

    HookFactory(expires_at=timezone.now() + timedelta(hours=1), run__started_by=UserFactory())
    queries()  # content types are looked up once in a process
    one = queries()
    HookFactory.create_batch(
        49, expires_at=timezone.now() + timedelta(hours=1), run__started_by=UserFactory()
    )
    assert queries() == one


def test_nothing_of_unknown_size_is_loaded(browser: Client) -> None:
    HookFactory(received=True, context={"text": "x" * 1000})
    with CaptureQueriesContext(connection) as captured:
        browser.get(HOOKS, {"status": "all"})
    selects = " ".join(
        query["sql"].partition(" FROM ")[0]
        for query in captured
        if '_hook" ' in query["sql"] or "_hook` " in query["sql"]
    )
    assert "expires_at" in selects
    for column in ("context", "reviewers", "payload", "description", "arguments", "result", "error"):
        assert column not in selects


def test_row_that_can_not_be_read_does_not_break_the_list(browser: Client) -> None:
    HookFactory(title="Broken", context=UNREADABLE, reviewers=UNREADABLE)
    assert titles(browser.get(HOOKS)) == ["Broken"]


def test_markup_in_a_title_is_text(browser: Client) -> None:
    HookFactory(title="<script>alert(1)</script>")
    response = browser.get(HOOKS)
    assert b"<script>alert(1)" not in response.content
    assert "<script>alert(1)</script>" in text_of(response)


def test_reviewer_is_offered_nothing_that_changes_rows(browser: Client) -> None:
    HookFactory()
    response = browser.get(HOOKS)
    assert not any("/add/" in link for link, _ in parsed(response).links)
    choices = [name for name, _ in response.context["action_form"].fields["action"].choices]
    assert choices == ["", "approve_selected", "reject_selected"]
    assert browser.get(f"{HOOKS}add/").status_code == 403


def test_who_may_not_look_sees_no_list(db: None) -> None:
    stranger = browser_of(UserFactory(staff=True))
    assert stranger.get(HOOKS).status_code == 403
    # Being staff is no permission, and having the permission is not being staff.
    customer = browser_of(UserFactory(permissions=["view_hook", "review_hook"]))
    assert customer.get(HOOKS).status_code == 302


def _choices(response: Any, parameter: str) -> list[tuple[Any, Any]]:
    changelist = response.context["cl"]
    (spec,) = [s for s in changelist.filter_specs if getattr(s, "parameter_name", "") == parameter]
    return [(c["query_string"], c["display"] if c["selected"] else "") for c in spec.choices(changelist)]


def test_page_of_fifty(browser: Client) -> None:
    HookFactory.create_batch(51)
    assert len(titles(browser.get(HOOKS))) == 50
    assert len(titles(browser.get(HOOKS, {"p": "2"}))) == 1
    assert Hook.objects.count() == 51


# Narrowing it down


def test_counts_are_links(browser: Client) -> None:
    now = timezone.now()
    HookFactory(title="theirs", reviewers=["email:lou@example.com"])
    HookFactory(title="soon", expires_at=now + timedelta(minutes=50))
    HookFactory(title="late", overdue=True)
    for state in ("received", "past_deadline"):
        HookFactory(**{state: True})
    page = parsed(browser.get(HOOKS))
    assert [words for _, words in page.links if words[:1].isdigit()] == [
        "2 awaiting your review",
        "3 waiting",
        "1 due within the hour",
        "1 overdue",
    ]
    assert titles(browser.get(page.link("due within the hour"))) == ["soon"]
    assert titles(browser.get(page.link("1 overdue"))) == ["late"]
    assert titles(browser.get(page.link("awaiting your review"))) == ["late", "soon"]
    assert set(titles(browser.get(page.link("3 waiting")))) == {"late", "soon", "theirs"}


def test_counts_of_nothing_are_left_out(browser: Client) -> None:
    assert [words for _, words in parsed(browser.get(HOOKS)).links if words[:1].isdigit()] == ["0 waiting"]


def test_counting_stops_where_nobody_cares_any_more(db: None) -> None:
    HookFactory.create_batch(3)
    assert count_up_to(Hook.objects.all(), 2) == (3, "2+")
    assert count_up_to(Hook.objects.all(), 3) == (3, "3")


def test_due_today(browser: Client, clock: Any) -> None:
    now = timezone.now()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    HookFactory(title="today", expires_at=midnight - timedelta(seconds=1))
    HookFactory(title="tomorrow", expires_at=midnight + timedelta(seconds=1))
    assert titles(browser.get(HOOKS, {"due": "today"})) == ["today"]
    assert len(titles(browser.get(HOOKS, {"due": "nonsense"}))) == 2


def test_search_by_what_the_run_is_about(browser: Client) -> None:
    article = ArticleFactory(title="Fog")
    HookFactory(title="about it", run__subject=article)
    HookFactory(title="about nothing")
    HookFactory(title="about a person", run__subject=UserFactory(pk=article.pk + 1000))
    assert titles(browser.get(HOOKS, {"q": f"article {article.pk}"})) == ["about it"]
    assert "about it" in titles(browser.get(HOOKS, {"q": f"{article.pk}"}))
    assert titles(browser.get(HOOKS, {"q": f"novel {article.pk}"})) == []
    assert titles(browser.get(HOOKS, {"q": f"article {'9' * 70}"})) == []


def test_filters_offer_what_there_is(browser: Client) -> None:
    HookFactory(name="sign_off", run__workflow="shop.workflows.refund")
    choices = {
        spec.title: [choice["display"] for choice in spec.choices(response.context["cl"])]
        for response in [browser.get(HOOKS, {"name": "of_old"})]
        for spec in response.context["cl"].filter_specs
    }
    assert choices["workflow"] == ["All", "refund"]
    # What was chosen stays, even if no new question is called so.
    assert choices["question"] == ["All", "of old", "sign off"]


def test_pages_end_where_counting_does(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedPaginator, "LIMIT", 60)
    HookFactory.create_batch(61)
    response = browser.get(HOOKS, {"p": "2"})
    assert len(titles(response)) == 10
    assert "Only the first 60 are listed" in text_of(response)
