"""A million runs and hooks: `python -m benchmarks.scale` fills PostgreSQL and measures what people open.

Writes benchmarks/scale.json. The database is STEPHOOKS_BENCH_DATABASE with "_scale" behind it; it is
made and dropped here. The floor of a list's pages is the one that it opens with among a thousand rows.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"  # a site with the admin and the API
os.environ["STEPHOOKS_TEST_DB"] = "postgres"
database = os.environ.get("STEPHOOKS_BENCH_DATABASE", "stephooks_bench")
os.environ["STEPHOOKS_TEST_DB_NAME"] = f"{database}_scale"
django.setup()

from django.conf import settings  # noqa: E402
from django.contrib.auth.models import Permission, User  # noqa: E402
from django.core.cache import cache  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402
from django.utils import timezone  # noqa: E402

from django_stephooks.models import Hook, Run  # noqa: E402
from django_stephooks.services.hooks import resume_hook  # noqa: E402
from django_stephooks.services.prune import prune_in_batches  # noqa: E402
from django_stephooks.services.sweep import seconds_until_due, sweep  # noqa: E402

from .crowd import fill  # noqa: E402
from .database import fresh_database  # noqa: E402
from .report import Row  # noqa: E402

HERE = Path(__file__).parent
PAGE_GOAL, IDLE_GOAL = 300, 5
WAITING = 20  # every twentieth

HOOKS, RUNS, API = "/admin/django_stephooks/hook/", "/admin/django_stephooks/run/", "/api/stephooks/"
# Of each list how it opens, and with these queries.
PAGES = {
    HOOKS: """
        status=received status=expired status=cancelled status=all due=overdue due=hour due=today
        awaiting=me awaiting=me&status=all name=sign_off name=sign_off&status=all name=nope
        name=nope&status=all run__workflow=shop.workflows.refund
        run__workflow=shop.workflows.of_old&status=all
        q=story q=zebra q=zebra&status=all q=5000 q=5000&status=all q=content+type+500&status=all
        p=40 status=all&p=40 o=1 o=2 o=3 o=4 o=5 o=1&status=all
    """,
    RUNS: """
        status__exact=pending status__exact=running status__exact=suspended status__exact=completed
        status__exact=failed status__exact=cancelled workflow=shop.workflows.refund
        workflow=shop.workflows.of_old status__exact=failed&workflow=shop.workflows.refund kind=own kind=all
        q=refund q=zebra q=key-500 q=5000 q=content+type+500 p=40 status__exact=completed&p=40 o=0 o=4 o=5
    """,
    f"{API}hooks/": """
        status=pending status=received status=expired status=cancelled due=overdue due=hour due=today
        awaiting=me name=sign_off name=nope workflow=shop.workflows.refund workflow=shop.workflows.of_old
        status=pending&name=nope status=pending&workflow=shop.workflows.of_old status=cancelled&name=sign_off
        page_size=100 cursor={middle} status=cancelled&cursor={middle} awaiting=me&cursor={middle}
    """,
    f"{API}runs/": """
        status=pending status=running status=suspended status=completed status=failed status=cancelled
        workflow=shop.workflows.refund workflow=shop.workflows.of_old workflow=nope
        status=failed&workflow=shop.workflows.refund page_size=100
    """,
}
WORDS = {
    HOOKS: "admin, list of hooks",
    RUNS: "admin, list of runs",
    f"{API}hooks/": "API, hooks",
    f"{API}runs/": "API, runs",
}


def reviewer() -> Client:
    """Of somebody to whom none of the hooks was put: the most work for the least to show."""
    user = User.objects.create_user("reviewer", "reviewer@example.com", is_staff=True)
    ours = Permission.objects.filter(content_type__app_label="django_stephooks")
    user.user_permissions.set(ours.exclude(codename="review_any_hook"))
    client = Client()
    client.force_login(user)
    return client


def milliseconds(client: Client, url: str, repeat: int) -> float:
    times = []
    for _ in range(repeat + 1):
        cache.clear()  # the API's throttle
        began = time.perf_counter()
        response = client.get(url)
        times.append((time.perf_counter() - began) * 1000)
        assert response.status_code == 200, (url, response.status_code)
    return statistics.median(times[1:])


def pages(client: Client, floors: dict[str, float], repeat: int) -> Iterator[Row]:
    middle = Hook.objects.order_by("pk").values_list("public_id", flat=True)[Hook.objects.count() // 2]
    for path, queries in PAGES.items():
        asked = ["", *queries.format(middle=middle).split()]
        times = {query: milliseconds(client, f"{path}?{query}", repeat) for query in asked}
        slowest = max(times, key=lambda query: times[query])
        for query, words in (("", "as it opens"), (slowest, f"slowest of {len(times)} (?{slowest})")):
            yield Row(
                measure=f"{WORDS[path]}, {words}",
                values=[times[query]],
                unit="ms",
                floor=floors[path],
                goal=PAGE_GOAL,
            )


def sweeping(repeat: int) -> Iterator[Row]:
    """With nothing due."""
    looks = {"the sweep with nothing to do": sweep, "the look for the next deadline": _look}
    for words, look in looks.items():
        look()
        times = []
        for _ in range(repeat * 4):
            began = time.perf_counter()
            look()
            times.append((time.perf_counter() - began) * 1000)
        others = Run.objects.filter(status=Run.Status.SUSPENDED).count()
        yield Row(measure=words, values=times, unit="ms", goal=IDLE_GOAL, others=others)


def _look() -> None:
    seconds_until_due(longest=1)


def pruning() -> Iterator[Row]:
    """All that is finished, while answers come in."""
    tokens = [hook.token for hook in Hook.objects.pending().order_by("pk")[: WAITING * 50 : WAITING]]
    answers: list[float] = []
    ended = threading.Event()

    def answer() -> None:
        for token in tokens:
            if ended.wait(0.2):
                break
            began = time.perf_counter()
            resume_hook(token, {"approved": True})
            answers.append((time.perf_counter() - began) * 1000)
        connection.close()

    thread = threading.Thread(target=answer)
    thread.start()
    batches, deleted, began = [], 0, time.perf_counter()
    started = began
    for count in prune_in_batches(timezone.now()):
        deleted += count
        batches.append((time.perf_counter() - began) * 1000)
        began = time.perf_counter()
    yield Row(measure=f"pruning {deleted:,} runs, in all", values=[began - started], unit="s")
    ended.set()
    thread.join()
    yield Row(measure="pruning, a batch of 1,000", values=batches, unit="ms")
    yield Row(measure="pruning, the slowest batch", values=[max(batches)], unit="ms")
    yield Row(measure="an answer while pruning", values=answers, unit="ms")
    yield Row(measure="the slowest answer while pruning", values=[max(answers)], unit="ms")


def measure(total: int, repeat: int) -> Iterator[Row]:
    client = reviewer()
    fill(1000, waiting=1000 // WAITING)
    floors = {path: milliseconds(client, path, repeat) for path in PAGES}
    began = time.perf_counter()
    fill(total, waiting=total)
    yield Row(measure=f"filling {total:,} runs", values=[time.perf_counter() - began], unit="s", goal=60)
    yield from sweeping(repeat)
    fill(total, waiting=total // WAITING)
    yield from pages(client, floors, repeat)
    yield from pruning()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--total", type=int, default=1_000_000, help="how many runs, each with a hook")
    parser.add_argument("--repeat", type=int, default=5, help="of how many the median is taken")
    options = parser.parse_args()
    settings.STEPHOOKS = {"RUNTIME": "benchmarks.silent.Silent"}
    rows = []
    with fresh_database():
        for row in measure(options.total, options.repeat):
            print(row, flush=True)
            rows.append(row)
    if options.total == parser.get_default("total"):
        text = json.dumps([row.as_json() for row in rows], indent=1, ensure_ascii=False)
        (HERE / "scale.json").write_text(f"{text}\n")
    else:
        print("Not written: these are not a million.", file=sys.stderr)


if __name__ == "__main__":
    main()
