"""Among a hundred thousand: what is asked of the database, and how many rows it looks at to answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchmarks.crowd import fill
from django_stephooks.engine import store
from django_stephooks.models import Event, Hook, Run
from django_stephooks.services.sweep import SweepResult, seconds_until_due, sweep
from tests.factories import UserFactory
from tests.services import bells

HOOKS, RUNS, API = "/admin/django_stephooks/hook/", "/admin/django_stephooks/run/", "/api/stephooks/"
TOTAL = 100_000


@pytest.fixture(scope="module")
def crowd(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Made once for these tests, which leave it as it was."""
    if connection.vendor != "postgresql":
        pytest.skip("PostgreSQL's plans are what is looked at; no other database is promised to be fast.")
    with django_db_blocker.unblock():
        fill(TOTAL, waiting=5_000)
    yield
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute("TRUNCATE django_stephooks_run CASCADE")


@pytest.fixture
def silent(settings: Any) -> None:
    settings.STEPHOOKS = {"RUNTIME": f"{bells.__name__}.NotedBells"}


@pytest.fixture
def browser(db: None) -> Client:
    """Of somebody to whom none of the hooks was put."""
    names = ["view_hook", "review_hook", "view_run"]
    client = Client()
    client.force_login(UserFactory(staff=True, permissions=names))
    return client


def statements(function: Callable[[], Any]) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        function()
    return [query["sql"] for query in captured]


def plan_of(sql: str) -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}")
        (found,) = cursor.fetchone()
    plans = json.loads(found) if isinstance(found, str) else found
    return dict(plans[0]["Plan"])


def rows_looked_at(plan: dict[str, Any]) -> int:
    """In tables and indexes: those that were taken, and those that were looked at in vain."""
    of_this = 0
    if "Relation Name" in plan:
        of_this = sum(
            plan.get(name, 0) * plan["Actual Loops"]
            for name in ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck")
        )
    return int(of_this) + sum(rows_looked_at(part) for part in plan.get("Plans", ()))


def rows_of(sqls: list[str]) -> dict[str, int]:
    return {sql: rows_looked_at(plan_of(sql)) for sql in sqls if sql.startswith("SELECT")}


def indexes_in(plan: dict[str, Any]) -> set[str]:
    own = {plan["Index Name"]} if "Index Name" in plan else set()
    return own.union(*(indexes_in(part) for part in plan.get("Plans", ())))


# What comes every few seconds


def test_idle_sweep_looks_at_no_row(crowd: None, silent: None, db: None) -> None:
    """Not at those that wait, however long they are overdue, nor at what is ready."""
    Run.objects.filter(pk__lte=2_000, status=Run.Status.COMPLETED).update(
        status=Run.Status.PENDING, due_at=timezone.now(), finished_at=None
    )
    assert Hook.objects.pending().filter(expires_at__lte=timezone.now()).count() > 200
    sqls = statements(lambda: sweep() == SweepResult())
    looked_at = rows_of(sqls)
    assert len(looked_at) == 5
    # The ready run of the one queue that has been ready for longest.
    assert sum(looked_at.values()) <= 1, looked_at


def test_look_for_the_next_deadline_looks_at_one_row_of_each_kind(crowd: None, db: None) -> None:
    looked_at = rows_of(statements(lambda: seconds_until_due(longest=1)))
    assert len(looked_at) == 3
    assert max(looked_at.values()) <= 1


def test_sweep_of_a_few_looks_at_them_and_no_others(crowd: None, silent: None, db: None) -> None:
    soon = Hook.objects.with_deadline().order_by("expires_at")[9].expires_at
    assert soon is not None
    due = Hook.objects.past_deadline(soon).order_by("expires_at", "pk")
    plan = plan_of(statements(lambda: list(due.values_list("expires_at", "pk", "run_id")[:500]))[0])
    assert indexes_in(plan) == {"stephooks_hook_deadline"}
    assert rows_looked_at(plan) == 10


def test_claim_is_not_held_up_by_what_is_ready_in_another_queue(crowd: None, silent: None, db: None) -> None:
    long_ago = timezone.now() - timedelta(days=1)
    ready = {"status": Run.Status.PENDING, "finished_at": None}
    Run.objects.filter(pk__lte=20_000, status=Run.Status.COMPLETED).update(
        **ready, queue="other", due_at=long_ago
    )
    mine = Run.objects.filter(pk__gt=20_000, status=Run.Status.COMPLETED).first()
    assert mine is not None
    Run.objects.filter(pk=mine.pk).update(**ready, due_at=timezone.now())
    lease = timezone.now() + timedelta(minutes=1)
    with transaction.atomic():
        sqls = statements(lambda: store.claim("default", lease_until=lease))
        assert Run.objects.get(pk=mine.pk).status == Run.Status.RUNNING
        transaction.set_rollback(True)
    with transaction.atomic():
        plan = plan_of(next(sql for sql in sqls if "SKIP LOCKED" in sql))
        transaction.set_rollback(True)
    assert "stephooks_run_ready" in indexes_in(plan)
    assert rows_looked_at(plan) <= 5


# Lists


LISTS = [
    *(f"{HOOKS}?{query}" for query in ("", "status=received", "status=all", "status=cancelled", "p=2")),
    *(f"{HOOKS}?{query}" for query in ("due=overdue", "due=hour", "o=0&status=all", "o=-3")),
    *(f"{RUNS}?{query}" for query in ("", "kind=all", "status__exact=completed", "o=1", "o=5", "p=40")),
    *(f"{RUNS}?status__exact={status}" for status in ("pending", "running", "failed", "cancelled")),
    *(f"{API}hooks/?{query}" for query in ("", "status=received", "status=cancelled", "due=hour")),
    *(f"{API}runs/?{query}" for query in ("", "status=completed", "status=failed", "status=pending")),
]


@pytest.mark.parametrize("url", LISTS)
def test_list_looks_at_little_more_than_it_shows(crowd: None, browser: Client, url: str) -> None:
    sqls = statements(lambda: browser.get(url))
    assert sqls
    looked_at = rows_of(sqls)
    # The first 2,000 keys are the most that a list asks for; the header looks at 5,000 waiting ones.
    assert max(looked_at.values()) <= 5_001, max(looked_at.items(), key=lambda item: item[1])
    assert sum(looked_at.values()) <= 20_000


def test_number_of_queries_does_not_grow_with_the_number_of_rows(crowd: None, browser: Client) -> None:
    def queries(url: str) -> int:
        return len([sql for sql in statements(lambda: browser.get(url)) if sql.startswith("SELECT")])

    urls = [f"{HOOKS}?status=all", f"{HOOKS}?", f"{RUNS}?", f"{API}hooks/?", f"{API}runs/?"]
    for url in urls:
        browser.get(url)
    many = [queries(url) for url in urls]
    with transaction.atomic():
        keep = list(Hook.objects.waiting(timezone.now()).order_by("-pk").values_list("run_id", flat=True)[:2])
        for rows, column in ((Event, "run_id"), (Hook, "run_id"), (Run, "pk")):
            rows._default_manager.exclude(**{f"{column}__in": keep})._raw_delete("default")
        assert Hook.objects.count() == 2
        few = [queries(url) for url in urls]
        transaction.set_rollback(True)
    # A list of the API that is not full has looked for more among the oldest.
    assert all(more <= less for more, less in zip(many, few, strict=True)), (many, few)


def test_rare_ones_are_found_however_old_they_are(crowd: None, browser: Client) -> None:
    """With an index walked from its newest end they would be found last, and one by one."""
    url = f"{API}hooks/?workflow=shop.workflows.of_old"
    response = browser.get(url)
    assert len(response.json()["results"]) == 50
    keys = [hook["id"] for hook in response.json()["results"]]
    newest = Hook.objects.filter(run__workflow="shop.workflows.of_old").order_by("-pk")
    assert keys == [str(one) for one in newest.values_list("public_id", flat=True)[:50]]
    assert max(rows_of(statements(lambda: browser.get(url))).values()) < TOTAL * 1.5
