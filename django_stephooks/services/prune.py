"""Forget finished runs, with their journals, hooks and checkpoints, in bounded batches."""

from __future__ import annotations

from datetime import datetime

from django.db import connections

from django_stephooks.models import Event, Hook, Run, StepCheckpoint
from django_stephooks.models.run import RunQuerySet
from django_stephooks.models.transactions import transact, write_alias


def prunable(before: datetime) -> int:
    """How many runs `prune` would forget."""
    return _finished(before).count()


def prune(before: datetime, *, batch: int = 1000) -> int:
    """Delete the runs that finished at this moment or earlier; returns how many. Waiting runs stay.

    Each batch is a transaction of its own and passes by rows that somebody holds.
    """
    deleted, last = 0, 0
    while True:
        # One pass along the primary key: a finished run does not come into being behind it.
        pks = list(_finished(before).filter(pk__gt=last).order_by("pk").values_list("pk", flat=True)[:batch])
        if not pks:
            return deleted
        last = pks[-1]
        deleted += _delete(pks, before)


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
    for model in (Event, Hook, StepCheckpoint):
        model._default_manager.using(runs.db).filter(run__in=held).delete()
    Run.objects.using(runs.db).filter(pk__in=held).delete()
    return len(held)
