"""What Prometheus gets to see, read from the database at each scrape."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime
from itertools import accumulate
from typing import Any

from django.db import DatabaseError, connections
from django.db.models import Count, Min
from django.utils import timezone
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from django_stephooks.models import Event, Hook, Run, Sweep
from django_stephooks.models.transactions import write_alias

from .counting import DECISION_SECONDS, TURN_ENDS, TURN_SECONDS, count, oldest_hook
from .models import Tally

logger = logging.getLogger("django_stephooks")


class StepHooksCollector(Collector):
    """Register it where the project's metrics are: `REGISTRY.register(StepHooksCollector())`.

    A database that does not answer is `stephooks_up 0` and no error, so that a page with other
    metrics stays whole.
    """

    def describe(self) -> list[Metric]:
        # Else a registry collects when this is registered, before the database may be asked.
        return []

    def collect(self) -> Iterator[Metric]:
        connection = connections[write_alias()]
        if not connection.in_atomic_block:
            # A thread that serves nothing but metrics has nobody else who would do it.
            connection.close_if_unusable_or_obsolete()
        try:
            metrics = [*_gauges(timezone.now()), *_counters(count(timezone.now()))]
        except DatabaseError as error:
            logger.warning("Metrics could not be read: %s", error)
            metrics = []
        yield GaugeMetricFamily("stephooks_up", "Whether the database could be read.", float(bool(metrics)))
        yield from metrics


def _gauges(now: datetime) -> Iterator[Metric]:
    alias = write_alias()
    hooks, runs = Hook.objects.using(alias), Run.objects.using(alias)
    yield _gauge("hooks_waiting", "Questions that wait for an answer.", hooks.pending().count())
    overdue = hooks.past_deadline(now).count()
    yield _gauge("hooks_past_deadline", "Questions past their deadline that no sweep came to yet.", overdue)
    ready = GaugeMetricFamily("stephooks_runs_ready", "Runs that wait for a worker.", labels=["queue"])
    since = GaugeMetricFamily(
        "stephooks_runs_ready_oldest_seconds", "For how long the first of them has.", labels=["queue"]
    )
    backlog = runs.ready().order_by().values_list("queue").annotate(Count("pk"), Min("due_at"))
    for queue, number, first in backlog:
        ready.add_metric([queue], number)
        since.add_metric([queue], _age(first, now))
    yield ready
    yield since
    running = runs.filter(status=Run.Status.RUNNING)
    yield _gauge("runs_running", "Runs that a worker has.", running.count())
    crashed = runs.lease_ended(now).count()
    yield _gauge("runs_crashed", "Runs whose worker was lost and that wait for a sweep.", crashed)
    if last := Sweep.objects.using(alias).values_list("last_swept_at", flat=True).first():
        yield _gauge("sweep_lag_seconds", "Since the last sweep.", _age(last, now))


def _counters(tally: Tally) -> Iterator[Metric]:
    yield _gauge("hooks_oldest_waiting_seconds", "How long the oldest question has waited.", _waiting(tally))
    totals = tally.totals
    events = CounterMetricFamily("stephooks_events", "Events of the journal.", labels=["type"])
    for type in Event.Type.values:
        events.add_metric([type], totals.get("events", {}).get(type, 0))
    yield events
    turns = HistogramMetricFamily(
        "stephooks_turn_seconds", "How long turns took, by how they ended.", labels=["outcome"]
    )
    for outcome in TURN_ENDS.values():
        _add(turns, [outcome], TURN_SECONDS, totals.get("turns", {}).get(outcome, {}))
    yield turns
    decisions = HistogramMetricFamily(
        "stephooks_decision_seconds", "From question to answer, of those that were answered."
    )
    _add(decisions, [], DECISION_SECONDS, totals.get("decisions", {}))
    yield decisions


def _waiting(tally: Tally) -> float:
    oldest = oldest_hook(tally.oldest_hook)
    return _age(oldest.created_at, timezone.now()) if oldest else 0.0


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(f"stephooks_{name}", words, value)


def _age(moment: datetime, now: datetime) -> float:
    # Clocks differ: what was written a moment ago elsewhere may seem to come.
    return max((now - moment).total_seconds(), 0.0)


def _add(family: Any, labels: list[str], bounds: tuple[float, ...], stored: dict[str, Any]) -> None:
    counts = stored.get("buckets") or [0] * (len(bounds) + 1)
    names = [*(str(bound) for bound in bounds), "+Inf"]
    family.add_metric(labels, list(zip(names, accumulate(counts), strict=True)), stored.get("sum", 0.0))
