"""The page of a question: what is asked, what it is about, what became of it."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_stephooks import codec
from django_stephooks.models import Hook, Run
from django_stephooks.models.fields import Encoded
from tests.factories import ArticleFactory, HookFactory, UserFactory

from .conftest import browser_of
from .pages import HOOKS, UNREADABLE, address, buttons, parsed, text_of

pytestmark = pytest.mark.django_db

EVIL = "<script>alert(1)</script>"


def test_shows_what_is_asked_by_whom_for_what_and_until_when(browser: Client) -> None:
    author = UserFactory(username="ann")
    hook = HookFactory(
        title="Publish 'Fog'?",
        description="By Ann.\n\nWithout an answer: spike.",
        run__started_by=author,
        expires_at=timezone.now() + timedelta(hours=3, minutes=1),
    )
    response = browser.get(address(hook))
    text = text_of(response)
    for words in ("Publish 'Fog'?", "By Ann.", "ann", "Waiting", "in 3 hours", "go on without an answer"):
        assert words in text
    assert str(hook.run) in text
    assert hook.call in text
    assert f'<time datetime="{hook.created_at.isoformat()}">' in response.content.decode()


def test_reviewer_who_may_not_see_runs_gets_no_link_to_one(browser: Client) -> None:
    hook = HookFactory()
    assert address(hook.run) not in browser.get(address(hook)).content.decode()
    boss = browser_of(UserFactory(superuser=True))
    assert address(hook.run) in [link for link, _ in parsed(boss.get(address(hook))).links]


def test_form_has_the_two_buttons_and_a_comment(browser: Client) -> None:
    hook = HookFactory()
    page = parsed(browser.get(address(hook)))
    (form,) = [form for form in page.forms if "comment" in form.fields]
    assert form.method == "post"
    assert form.action == address(hook, "answer")
    assert [(button.name, button.value, button.text) for button in buttons(form)] == [
        ("decision", "approve", "Approve"),
        ("decision", "reject", "Reject"),
    ]
    assert "csrfmiddlewaretoken" in form.fields


def test_forms_are_not_nested(browser: Client) -> None:
    html = browser.get(address(HookFactory())).content.decode()
    depth = 0
    for piece in html.split("<")[1:]:
        depth += piece.startswith("form ") - piece.startswith("/form>")
        assert depth in (0, 1)


def test_onlooker_is_told_why_there_are_no_buttons(onlooker: Client) -> None:
    response = onlooker.get(address(HookFactory()))
    assert not [form for form in parsed(response).forms if "comment" in form.fields]
    assert "takes the permission to answer hooks" in text_of(response)


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ({"received": True, "by": "lou", "answer": {"approved": False, "comment": "Too long."}}, None),
        ({"expired": True}, "nobody had answered: it is too late now"),
        ({"past_deadline": True}, "nobody had answered: it is too late now"),
        ({"cancelled": True}, "This is no longer asked: the run is cancelled."),
    ],
)
def test_settled_question_says_so_and_has_no_form(
    browser: Client, state: dict[str, Any], sentence: str | None
) -> None:
    hook = HookFactory(**state)
    sentence = sentence or "Already rejected by lou 0 s ago: 'Too long.'"
    response = browser.get(address(hook))
    assert response.status_code == 200
    assert sentence in text_of(response)
    assert not [form for form in parsed(response).forms if "comment" in form.fields]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"approved": True}, "Already approved by somebody"),
        ("maybe", "Already answered by somebody"),
        ({"approved": "yes", "comment": 7}, "Already answered by somebody"),
        (None, "Already answered by somebody"),
        (0, "Already answered by somebody"),
    ],
)
def test_answers_of_any_shape_are_shown(browser: Client, answer: Any, words: str) -> None:
    assert words in text_of(browser.get(address(HookFactory(received=True, answer=answer))))


@pytest.mark.parametrize(
    ("passed", "words"),
    [
        ("20s", "Already approved by lou 20 s ago."),
        ("5m", "Already approved by lou 5 min ago."),
        ("59m", "Already approved by lou 59 min ago."),
        ("2h", "Already approved by lou at 20"),
    ],
)
def test_how_long_ago_somebody_was_faster(browser: Client, clock: Any, passed: str, words: str) -> None:
    hook = HookFactory(received=True, by="lou")
    clock.advance(passed)
    assert words in text_of(browser.get(address(hook)))


def test_answer_of_a_deleted_reviewer_keeps_their_name(browser: Client) -> None:
    lou = UserFactory(username="lou", reviewer=True)
    hook = HookFactory(received=True, by=lou)
    lou.delete()
    assert "Already approved by lou" in text_of(browser.get(address(hook)))


def test_reviewers_are_named(browser: Client) -> None:
    lou, group = UserFactory(username="lou"), Group.objects.create(name="Editors")
    hook = HookFactory(
        reviewers=[f"user:{lou.pk}", f"group:{group.pk}", "email:kim@example.com", "user:0", "group:0"]
    )
    assert "lou, Editors, kim@example.com, a user who is gone, a group that is gone" in text_of(
        browser.get(address(hook))
    )
    Hook.objects.update(reviewers=["user:not-a-number"])
    assert "a user who is gone" in text_of(browser.get(address(hook)))


def test_context_is_a_table_of_names_and_values(browser: Client) -> None:
    context = {
        "author": {"name": "Ann", "books": ["Fog", "Rain"], "tags": {"b", "a"}},
        "fee": Decimal("12.50"),
        "id": uuid.UUID(int=7),
        "at": datetime(2026, 11, 30, 12, 0, tzinfo=UTC),
        "day": datetime(2026, 11, 30, tzinfo=UTC).date(),
        "time": datetime(2026, 11, 30, 12, 30, tzinfo=UTC).time(),
        "wait": timedelta(minutes=5),
        "raw": b"\x00\xff",
        "checked": True,
        "sold": False,
        "nothing": None,
        "blank": "",
        3: "three",
        "huge": 10**5000,
        datetime(2026, 11, 30, 12, 0, tzinfo=UTC): "then",
        (10**5000,): "endless",
    }
    # Encoded here: the factory wants to print what it is given, and the huge number can not be.
    response = browser.get(address(HookFactory(context=Encoded(codec.dumps(context)))))
    html = response.content.decode()
    assert "<dt>author</dt>" in html
    assert "<dt>books</dt>" in html
    text = text_of(response)
    for shown in ("Ann", "Fog Rain", "a b", "12.50", "Nov. 30, 2026, noon", "12:30:00", "0:05:00"):
        assert shown in text
    for shown in ("2 bytes: 00 ff", "checked yes", "sold no", "nothing none", "blank empty", "3 three"):
        assert shown in text
    assert f"huge {hex(10**5000)}" in text
    assert "2026-11-30 12:00:00+00:00 then" in text
    assert "too long to be shown endless" in text


def test_long_text_is_folded(browser: Client) -> None:
    text = "It was a dark and stormy night. " * 20
    html = browser.get(address(HookFactory(context={"text": text, "lines": "a\n" * 9}))).content.decode()
    assert html.count('<details class="stephooks-long">') == 2
    assert "stormy night. It was a dark and stormy night. It was a d" in html


def test_deep_and_wide_values_are_cut_but_not_lost(browser: Client) -> None:
    deep: Any = "the bottom"
    for _ in range(60):
        deep = {"down": deep}
    huge: Any = 10**5000
    for _ in range(10):
        huge = [huge]
    context = {"deep": deep, "wide": list(range(1000)), "huge": huge}
    text = text_of(browser.get(address(HookFactory(context=Encoded(codec.dumps(context))))))
    assert "the bottom" in text
    assert "199 and 800 more" in text
    assert "too deep to be shown" in text


@pytest.mark.parametrize("place", ["title", "description", "key", "value", "long", "before", "subject"])
def test_markup_is_text_wherever_it_stands(browser: Client, place: str) -> None:
    context = {
        "key": {EVIL: "x"},
        "value": {"x": EVIL},
        "long": {"x": EVIL * 30},
        "before": {"before": EVIL, "after": [EVIL]},
    }
    fields: dict[str, Any] = {"context": context.get(place)}
    if place in ("title", "description"):
        fields[place] = EVIL
    hook = HookFactory(**fields)
    if place == "subject":
        article = ArticleFactory(title=EVIL)
        content_type = ContentType.objects.get_for_model(article)
        Run.objects.update(subject_type=content_type, subject_id=article.pk)
    response = browser.get(address(hook))
    assert EVIL.encode() not in response.content
    assert EVIL in text_of(response)


@pytest.mark.parametrize("answer", [{"approved": True, "comment": EVIL}, {EVIL: EVIL}, EVIL, [EVIL]])
def test_markup_in_an_answer_is_text(browser: Client, answer: Any) -> None:
    hook = HookFactory(received=True, answer=answer, by=EVIL, channel="<b>")
    response = browser.get(address(hook))
    assert EVIL.encode() not in response.content
    assert b"<b>" not in response.content
    assert EVIL in text_of(response)


def test_characters_that_nobody_can_print_are_replaced(browser: Client) -> None:
    context = {"a\x00": "x\x00y", "b": ["\ud800", {"\udfff": 1}]}
    response = browser.get(address(HookFactory(context=context)))
    assert response.status_code == 200
    assert "x\ufffdy" in text_of(response)


@pytest.mark.parametrize("column", ["context", "payload", "reviewers"])
def test_column_that_can_not_be_read_is_said_to_be(browser: Client, column: str) -> None:
    hook = HookFactory(received=column == "payload", description="Still here.")
    Hook.objects.update(**{column: UNREADABLE})
    response = browser.get(address(hook))
    assert response.status_code == 200
    assert "Still here." in text_of(response)
    assert "can not be" in text_of(response)


def test_subject_is_named_and_linked_if_it_has_a_page(browser: Client) -> None:
    author = UserFactory(username="ann")
    hook = HookFactory(run__subject=author)
    assert "ann" in text_of(browser.get(address(hook)))
    boss = browser_of(UserFactory(superuser=True))
    assert (f"/admin/auth/user/{author.pk}/change/", "ann") in parsed(boss.get(address(hook))).links


@pytest.mark.parametrize("what", ["row", "model", "key"])
def test_subject_that_is_gone_does_not_break_the_page(browser: Client, what: str) -> None:
    article = ArticleFactory(title="Fog")
    hook = HookFactory()
    content_type = ContentType.objects.get_for_model(article)
    if what == "model":
        content_type = ContentType.objects.create(app_label="gone", model="novel")
    Run.objects.update(
        subject_type=content_type, subject_id="not a number" if what == "key" else article.pk + 1
    )
    response = browser.get(address(hook))
    assert response.status_code == 200
    assert "(gone)" in text_of(response)


def test_unknown_hook_leads_to_the_front_page_with_a_message(browser: Client) -> None:
    response = browser.get(f"{HOOKS}4711/change/", follow=True)
    assert response.redirect_chain == [("/admin/", 302)]
    assert "Perhaps it was deleted?" in text_of(response)
    for junk in ("abc", "9" * 40, "%00"):
        assert browser.get(f"{HOOKS}{junk}/change/").status_code == 302


def test_page_can_not_be_posted_to(browser: Client) -> None:
    hook = HookFactory()
    assert browser.post(address(hook), {"status": "received"}).status_code == 403
    assert browser.post(address(hook, "delete"), {"post": "yes"}).status_code == 403
    assert Hook.objects.get().status == Hook.Status.PENDING


def test_who_may_not_look_sees_no_page(db: None) -> None:
    assert browser_of(UserFactory(staff=True)).get(address(HookFactory())).status_code == 403


def test_number_of_queries_does_not_depend_on_the_context(browser: Client) -> None:
    def queries(hook: Hook) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert browser.get(address(hook)).status_code == 200
        return len(captured)

    small = HookFactory(context={"a": 1}, reviewers=["user:1", "group:1"])
    large = HookFactory(
        context={str(n): {"a": [n]} for n in range(50)},
        reviewers=[f"{kind}:{n}" for kind in ("user", "group") for n in range(50)],
    )
    HookFactory()  # after either of them comes another question
    queries(small)
    assert queries(large) == queries(small)


def test_way_back_keeps_the_filters_of_the_list(browser: Client) -> None:
    hook = HookFactory(name="approve")
    page = parsed(browser.get(address(hook), {"_changelist_filters": "name=approve"}))
    assert f"{HOOKS}?name=approve" in [link for link, _ in page.links]
    (form,) = [form for form in page.forms if "comment" in form.fields]
    assert form.action.endswith("/answer/?_changelist_filters=name%3Dapprove")
