"""Forget finished runs, with their journals, hooks and checkpoints, in bounded batches."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.db import connections

from django_stephooks.models import Run
from django_stephooks.models.run import RunQuerySet
from django_stephooks.models.transactions import transact, write_alias


def prunable(before: datetime) -> int:
    """How many runs `prune` would forget."""
    return _finished(before).count()


def prune(before: datetime, *, batch: int = 1000) -> int:
    """Delete the runs that finished at this moment or earlier; returns how many. Waiting runs stay."""
    return sum(prune_in_batches(before, batch=batch))


def prune_in_batches(before: datetime, *, batch: int = 1000) -> Iterator[int]:
    """The same, telling how many after each batch; whoever stops it then may begin again at any time.

    Each batch is a transaction of its own, passes by rows that somebody holds, and locks no others.
    """
    last = 0
    while True:
        # One pass along the primary key: a finished run does not come into being behind it.
        pks = list(_finished(before).filter(pk__gt=last).order_by("pk").values_list("pk", flat=True)[:batch])
        if not pks:
            return
        last = pks[-1]
        yield _delete(pks, before)


def _finished(before: datetime) -> RunQuerySet:
    runs = Run.objects.using(write_alias())
    return runs.exclude(status__in=Run.ACTIVE).filter(finished_at__lte=before)


@transact
def _delete(pks: list[int], before: datetime) -> int:
    runs = _finished(before).filter(pk__in=pks)
    if connections[runs.db].features.has_select_for_update_skip_locked:
        runs = runs.select_for_update(skip_locked=True)
    # Held, and finished still: a failed run may have been retried meanwhile.
    held = list(runs.values_list("pk", flat=True))
    # Django deletes what belongs to them, also in tables of the project. It reads no more than it must.
    Run.objects.using(runs.db).filter(pk__in=held).only("pk").delete()
    return len(held)
