"""Reading hooks: who sees what, and what is shown."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_stephooks.models import Hook
from tests.factories import ArticleFactory, HookFactory, RunFactory, UserFactory

from .conftest import Client, client_of, problem, slug

pytestmark = pytest.mark.django_db


def titles(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    return [hook["title"] for hook in response.json()["results"]]


def spoil(hook: Hook, column: str) -> None:
    """What no codec can read stands in a recorded column."""
    table = Hook._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {table} SET {column} = %s WHERE id = %s",  # noqa: S608
            ['{"$t":"gone"}', hook.pk],
        )


# --- who ---


@pytest.mark.parametrize("address", ["hooks/", "hooks/{id}/"])
def test_nobody_sees_hooks_without_logging_in(anyone: Client, address: str):
    hook = HookFactory()

    response = anyone.get(address.format(id=hook.public_id))

    assert (response.status_code, slug(response)) == (403, "not-authenticated")


def test_the_list_takes_the_permission_to_view():
    HookFactory()

    response = client_of("review_hook").get("hooks/")

    assert (response.status_code, slug(response)) == (403, "not-allowed")


def test_being_staff_is_no_permission():
    assert client_of(is_staff=True).get("hooks/").status_code == 403


def test_a_hook_that_one_may_not_see_is_as_if_it_were_not_there():
    client = client_of("review_hook", "view_run")
    hook = HookFactory()

    hidden, missing = client.get(f"hooks/{hook.public_id}/"), client.get(f"hooks/{uuid.uuid4()}/")

    assert (hidden.status_code, slug(hidden)) == (404, "not-found")
    assert problem(hidden) == problem(missing)


def test_a_hook_is_not_found_by_its_key(reviewer: Client):
    response = reviewer.get(f"hooks/{HookFactory().pk}/")

    assert (response.status_code, slug(response)) == (404, "not-found")


def test_a_permission_for_one_row_shows_that_row(monkeypatch: pytest.MonkeyPatch):
    client = client_of()
    mine, other = HookFactory(), HookFactory()
    monkeypatch.setattr(
        type(client.user),
        "has_perm",
        lambda self, permission, obj=None: isinstance(obj, Hook) and obj.pk == mine.pk,
    )

    assert client.get(f"hooks/{mine.public_id}/").status_code == 200
    assert client.get(f"hooks/{other.public_id}/").status_code == 404


# --- the list ---


def test_the_list_shows_a_hook_without_what_may_be_long(reviewer: Client):
    subject = ArticleFactory()
    run = RunFactory(suspended=True, subject=subject)
    hook = HookFactory(
        run=run, title="Publish?", context={"text": "x"}, description="Long", reviewers=["user:1"]
    )

    (shown,) = reviewer.get("hooks/").json()["results"]

    assert shown == {
        "id": str(hook.public_id),
        "run": str(run.public_id),
        "workflow": "tests.app.workflows.publish",
        "subject": {"type": "testapp.article", "id": str(subject.pk)},
        "name": "approve",
        "title": "Publish?",
        "status": "pending",
        "is_overdue": False,
        "created_at": hook.created_at.isoformat().replace("+00:00", "Z"),
        "expires_at": None,
        "settled_at": None,
        "answered_by": "",
        "channel": "",
    }


@pytest.mark.parametrize("address", ["hooks/", "hooks/{id}/"])
def test_no_response_holds_a_token(reviewer: Client, address: str):
    hook = HookFactory()

    assert hook.token not in reviewer.get(address.format(id=hook.public_id)).content.decode()


@pytest.mark.parametrize("query", ["", "?awaiting=me", "?status=pending&due=hour&workflow=x&name=y"])
def test_the_list_takes_the_same_queries_for_1_and_for_50(reviewer: Client, query: str):
    def queries() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            assert reviewer.get(f"hooks/{query}").status_code == 200
        return [query["sql"] for query in captured]

    HookFactory(run=RunFactory(suspended=True, subject=ArticleFactory()))
    queries()  # fills the cache of content types
    few = queries()
    for _ in range(49):
        HookFactory(run=RunFactory(suspended=True, subject=ArticleFactory()))
    many = queries()

    assert len(few) == len(many)
    columns = [sql.partition("FROM")[0] for sql in many]
    for long in ("context", "payload", "description", "reviewers", "arguments", "result", "error"):
        assert not any(f".{connection.ops.quote_name(long)}" in selected for selected in columns), long


def test_pages_follow_each_other_without_gaps_whatever_comes_in_between(reviewer: Client):
    hooks = [HookFactory() for _ in range(5)]
    first = reviewer.get("hooks/?page_size=2").json()
    HookFactory(title="Came in between")
    second = reviewer.get(first["next"]).json()
    third = reviewer.get(second["next"]).json()

    shown = [hook["id"] for page in (first, second, third) for hook in page["results"]]
    assert shown == [str(hook.public_id) for hook in reversed(hooks)]
    assert third["next"] is None


def test_the_cursor_tells_nobody_how_many_rows_there_are(reviewer: Client):
    HookFactory.create_batch(3)

    cursor = reviewer.get("hooks/?page_size=2").json()["next"].partition("cursor=")[2].partition("&")[0]

    assert uuid.UUID(cursor).version == 4


def test_a_cursor_whose_row_is_gone_is_refused(reviewer: Client):
    response = reviewer.get(f"hooks/?cursor={uuid.uuid4()}")

    assert response.status_code == 400
    assert list(problem(response)["errors"]) == ["cursor"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("status=answered", "status"),
        ("due=soon", "due"),
        ("awaiting=dana", "awaiting"),
        ("run=41", "run"),
        ("cursor=x", "cursor"),
        ("page_size=0", "page_size"),
        ("page_size=1001", "page_size"),
        ("name=%00", "name"),
        ("workflow=%00", "workflow"),
    ],
)
def test_a_filter_that_is_none_is_refused_by_name(reviewer: Client, query: str, field: str):
    response = reviewer.get(f"hooks/?{query}")

    assert (response.status_code, slug(response)) == (400, "invalid-request")
    assert list(problem(response)["errors"]) == [field]


def test_filters_by_status_go_by_what_counts_not_by_what_a_sweep_wrote_down(reviewer: Client):
    HookFactory(title="waiting")
    HookFactory(title="overdue", overdue=True)
    HookFactory(title="late", past_deadline=True)
    HookFactory(title="expired", expired=True)
    HookFactory(title="received", received=True)
    HookFactory(title="cancelled", cancelled=True)

    found = {status: titles(reviewer.get(f"hooks/?status={status}")) for status in Hook.Status.values}

    assert found == {
        "pending": ["overdue", "waiting"],
        "expired": ["expired", "late"],
        "received": ["received"],
        "cancelled": ["cancelled"],
    }
    statuses = {hook["title"]: hook["status"] for hook in reviewer.get("hooks/").json()["results"]}
    assert (statuses["late"], statuses["overdue"]) == ("expired", "pending")


def test_filters_by_deadline(reviewer: Client, clock: Any):
    clock.now = datetime(2026, 11, 30, 20, 0, tzinfo=UTC)
    for title, hours in (("soon", 0.5), ("tonight", 3), ("tomorrow", 5)):
        HookFactory(title=title, expires_at=clock.now + timedelta(hours=hours))
    HookFactory(title="overdue", overdue=True)
    HookFactory(title="expired", past_deadline=True)
    HookFactory(title="whenever")

    found = {due: titles(reviewer.get(f"hooks/?due={due}")) for due in ("overdue", "hour", "today")}

    assert found == {"overdue": ["overdue"], "hour": ["soon"], "today": ["tonight", "soon"]}


def test_filters_by_workflow_name_and_run(reviewer: Client):
    wanted = HookFactory(title="wanted", name="legal", run__workflow="news.publish")
    HookFactory(title="other")

    for query in ("workflow=news.publish", "name=legal", f"run={wanted.run.public_id}"):
        assert titles(reviewer.get(f"hooks/?{query}")) == ["wanted"]


def test_awaiting_me_are_those_that_i_may_answer_now(reviewer: Client):
    me = reviewer.user
    group = Group.objects.create(name="editors")
    me.groups.add(group)
    for title, reviewers in {
        "anybody": None,
        "me": [f"user:{me.pk}"],
        "my group": ["user:999999", f"group:{group.pk}"],
        "my address": [f"email:{me.email.upper()}"],
        "one whose number begins like mine": [f"user:{me.pk}0"],
        "others": ["email:x@example.com", "group:999999"],
    }.items():
        HookFactory(title=title, reviewers=reviewers)
    HookFactory(title="answered", received=True)
    HookFactory(title="late", past_deadline=True)
    HookFactory(title="my own run", run__started_by=me)

    mine = ["my address", "my group", "me", "anybody"]
    assert titles(reviewer.get("hooks/?awaiting=me")) == mine
    for hook in Hook.objects.select_related("run"):
        detail = reviewer.get(f"hooks/{hook.public_id}/").json()
        assert detail["may_answer"] is (hook.title in mine), hook.title


def test_awaiting_me_follows_the_permissions_and_the_setting(settings: Any):
    everything = client_of("view_hook", "review_hook", "review_any_hook")
    HookFactory(title="others", reviewers=["user:999999"])
    HookFactory(title="own", run__started_by=everything.user)

    assert titles(everything.get("hooks/?awaiting=me")) == ["others"]
    settings.STEPHOOKS = {**settings.STEPHOOKS, "ALLOW_SELF_REVIEW": True}
    assert titles(everything.get("hooks/?awaiting=me")) == ["own", "others"]
    assert titles(client_of("view_hook").get("hooks/?awaiting=me")) == []


def test_a_row_that_can_not_be_read_breaks_neither_list_nor_page(reviewer: Client):
    hook = HookFactory(context={"a": 1}, reviewers=["user:1"], received=True)
    for column in ("context", "reviewers", "payload"):
        spoil(hook, column)

    assert len(titles(reviewer.get("hooks/"))) == 1
    shown = reviewer.get(f"hooks/{hook.public_id}/")
    assert shown.status_code == 200
    assert (shown.json()["context"], shown.json()["payload"]) == (None, None)
    assert shown.json()["unreadable"] == ["context", "payload"]


# --- one hook ---


def test_a_hook_shows_what_is_asked_and_whether_one_may_answer(reviewer: Client):
    other = UserFactory()
    hook = HookFactory(
        description="Read it first.",
        context={"before": "a", "price": Decimal("1.50"), "when": datetime(2026, 1, 2, tzinfo=UTC), 3: {1}},
        reviewers=[f"user:{other.pk}"],
    )

    shown = reviewer.get(f"hooks/{hook.public_id}/").json()

    assert shown["description"] == "Read it first."
    assert shown["context"] == {
        "before": "a",
        "price": "1.50",
        "when": "2026-01-02T00:00:00+00:00",
        "3": [1],
    }
    assert shown["reviewers"] == [str(other)]
    assert shown["may_answer"] is False
    assert shown["reason"].endswith("it was put to other reviewers.")
    assert (shown["payload"], shown["payload_schema"], shown["unreadable"]) == (None, None, [])


@pytest.mark.parametrize(
    "payload", [None, False, 0, "", [], {}, {"$t": "set", "v": [1]}, "\ud800 \x00", 10**700]
)
def test_the_payload_is_shown_as_it_was_given(reviewer: Client, payload: Any):
    hook = HookFactory(received=True, answer=payload)

    shown = reviewer.get(f"hooks/{hook.public_id}/").json()["payload"]

    assert shown == (hex(payload) if isinstance(payload, int) and payload else payload)


@pytest.mark.parametrize(
    ("schema", "properties"),
    [
        ("tests.api.forms:Grade", {"grade": "integer", "approved": "boolean"}),
        ("tests.api.forms:GradeForm", {"grade": "integer", "approved": "boolean", "tags": "array"}),
    ],
)
def test_a_schema_is_shown_as_json_schema(reviewer: Client, schema: str, properties: dict[str, str]):
    hook = HookFactory(schema=schema)

    shown = reviewer.get(f"hooks/{hook.public_id}/").json()["payload_schema"]

    assert {name: item["type"] for name, item in shown["properties"].items()} == properties
    assert shown["properties"]["grade"]["title"] == "Grade"
    assert shown["required"] == ["grade"]


@pytest.mark.parametrize(
    ("schema", "shown"), [("tests.api.forms:Gone", None), ("tests.api.forms:Odd", {"title": "Odd"})]
)
def test_a_schema_that_can_not_be_described_is_no_error(reviewer: Client, schema: str, shown: Any):
    hook = HookFactory(schema=schema)

    assert reviewer.get(f"hooks/{hook.public_id}/").json()["payload_schema"] == shown


@pytest.mark.parametrize("address", ["hooks/", "hooks/{id}/"])
def test_responses_are_kept_by_no_cache(reviewer: Client, address: str):
    response = reviewer.get(address.format(id=HookFactory(expires_at=timezone.now()).public_id))

    assert response["Cache-Control"] == "private, no-store"
