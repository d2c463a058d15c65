"""Counters out of the journal: each scrape counts what was written since the one before.

What is counted for good waits for SETTLED first: keys are given before a commit, so a key may appear
behind one that has been seen. A transaction that stays open for longer than that after it wrote an
event is the one thing that can be missed.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, F, Max

from django_stephooks.models import Event, Hook
from django_stephooks.models.fields import Encoded
from django_stephooks.models.transactions import write_alias

from .models import Tally

SETTLED = timedelta(seconds=10)
# So many events are counted in one scrape; what is more waits for the next.
MAX_EVENTS = 50_000
# So far behind a hook that is seen, an earlier one may still be on its way into the database.
MARGIN = 1000

T = Event.Type
# The events that end a turn, and how it ended.
TURN_ENDS: dict[str, str] = {
    T.RUN_SUSPENDED: "suspended",
    T.RUN_COMPLETED: "completed",
    T.RUN_FAILED: "failed",
}

TURN_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
DECISION_SECONDS = (10.0, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 4 * HOUR, DAY, 3 * DAY, 7 * DAY, 30 * DAY)


def count(now: datetime) -> Tally:
    """Count on, and return the tally as it is now. Of two scrapes at once, one counts."""
    tallies = Tally.objects.using(write_alias())
    tally = tallies.first() or _begin(now)
    if now - tally.seen_at < SETTLED:
        return tally
    to = _next(tally)
    changes: dict[str, Any] = {"counted_to": to, "seen_to": _last_event(), "seen_at": now}
    if to > tally.counted_to:
        changes["totals"] = _added(tally.totals, tally.counted_to, to)
    if oldest := oldest_hook(_known_oldest(tally, to)):
        changes["oldest_hook"] = oldest.pk
    # A slow scrape does not put back what a quicker one has counted meanwhile.
    tallies.filter(pk=tally.pk, counted_to=tally.counted_to, seen_at=tally.seen_at).update(**changes)
    return tallies.get(pk=tally.pk)


def _begin(now: datetime) -> Tally:
    """From here on; what was written before the first scrape is not counted."""
    last = _last_event()
    tally = Tally(pk=1, counted_to=last, seen_to=last, seen_at=now)
    tallies = Tally.objects.using(write_alias())
    tallies.bulk_create([tally], ignore_conflicts=True)
    return tallies.get(pk=1)


def _next(tally: Tally) -> int:
    """The last event to be counted now."""
    if tally.seen_to - tally.counted_to > MAX_EVENTS:
        new = Event.objects.using(write_alias()).filter(pk__gt=tally.counted_to, pk__lte=tally.seen_to)
        # Keys need not follow each other closely: it is rows that cost.
        for key in new.order_by("pk").values_list("pk", flat=True)[MAX_EVENTS - 1 : MAX_EVENTS]:
            return key
    return tally.seen_to


def _last_event() -> int:
    return Event.objects.using(write_alias()).aggregate(last=Max("pk"))["last"] or 0


def _known_oldest(tally: Tally, to: int) -> int:
    reopened = Event.objects.using(write_alias()).filter(pk__gt=tally.counted_to, pk__lte=to)
    return 0 if reopened.filter(type=T.HOOK_REOPENED).exists() else tally.oldest_hook


def oldest_hook(known: int) -> Hook | None:
    """The first that waits. It is looked for from the last one known, so settled ones are passed by once."""
    hooks = Hook.objects.using(write_alias()).pending().filter(pk__gte=known - MARGIN)
    return hooks.only("created_at").order_by("pk").first()


def _added(totals: Any, after: int, to: int) -> dict[str, Any]:
    """These totals with the events behind `after`, up to `to`."""
    new = Event.objects.using(write_alias()).filter(pk__gt=after, pk__lte=to)
    events = dict(totals.get("events", {}))
    for type, number in new.values_list("type").annotate(Count("pk")).order_by():
        events[type] = events.get(type, 0) + number
    turns = {outcome: dict(seconds) for outcome, seconds in totals.get("turns", {}).items()}
    for type, data in new.filter(type__in=TURN_ENDS).values_list("type", "data"):
        seconds = None if isinstance(data, Encoded) else data.get("seconds")
        if isinstance(seconds, (int, float)):  # a worker that was lost left none
            _observe(turns.setdefault(TURN_ENDS[type], {}), TURN_SECONDS, seconds)
    decisions = dict(totals.get("decisions", {}))
    answered = Hook.objects.using(new.db).filter(
        run__events__pk__gt=after,
        run__events__pk__lte=to,
        run__events__type=T.HOOK_RECEIVED,
        call=F("run__events__call"),
    )
    for asked_at, settled_at in answered.values_list("created_at", "settled_at"):
        if settled_at is not None:
            _observe(decisions, DECISION_SECONDS, (settled_at - asked_at).total_seconds())
    return {"events": events, "turns": turns, "decisions": decisions}


def _observe(histogram: dict[str, Any], bounds: tuple[float, ...], value: float) -> None:
    """Add a value to {"buckets": how many up to each bound and above the last one, "sum": seconds}."""
    buckets = list(histogram.get("buckets") or [0] * (len(bounds) + 1))
    buckets[bisect_left(bounds, value)] += 1
    histogram["buckets"] = buckets
    histogram["sum"] = round(histogram.get("sum", 0.0) + value, 4)
