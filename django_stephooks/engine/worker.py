"""`work`: what an RQ job, the inline runtime, or a worker of another kind runs.

One job advances many runs: it claims the ready runs of its queue one after the other until there
are none, or its time budget is used. The bell that called it is coalesced (see `runtimes`), so it
answers for everything that was ready when it came, and rings for a sibling while there is more.
A process that is told to stop finishes the turn at hand and leaves the rest to others.
"""

from __future__ import annotations

import logging
import time

from django.db import DatabaseError, connections
from django.utils import timezone

from django_stephooks.conf import app_settings
from django_stephooks.durations import parse_duration
from django_stephooks.models import Run
from django_stephooks.models.transactions import write_alias
from django_stephooks.runtimes.base import get_runtime

from . import store
from .lease import lease
from .turn import run_turn

logger = logging.getLogger("django_stephooks.engine")


def work(queue: str) -> int:
    """Advance the ready runs of this queue; returns how many turns were made."""
    runtime = get_runtime()
    # Before the first claim: whatever becomes ready from now on must ring anew.
    runtime.picked_up(queue)
    budget = parse_duration(app_settings.BATCH_SECONDS, name="BATCH_SECONDS").total_seconds()
    started = time.monotonic()
    turns = 0
    while advance(queue):
        turns += 1
        last = time.monotonic() - started > budget or not runtime.may_go_on(queue)
        if (turns == 1 or last) and store.any_ready(queue):
            runtime.ring(queue)
        if last:
            break
    return turns


def advance(queue: str) -> Run | None:
    """Make one turn on the run of this queue that has been ready for longest; None if none is."""
    run = store.claim(queue, lease_until=timezone.now() + lease())
    if run is None:
        return None
    try:
        run_turn(run)
    except DatabaseError:
        # Not the run's fault: another turn will do, counted as a recovery so that it can not go on for ever.
        logger.exception("The database failed while run %s was worked on.", run.pk)
        _end_lease(run)
    return run


def _end_lease(run: Run) -> None:
    """Let the sweep take the run at once. If not even this can be written, the lease ends by itself."""
    alias = write_alias()
    connections[alias].close_if_unusable_or_obsolete()
    try:
        Run.objects.using(alias).filter(pk=run.pk).extend_lease(run.turn, lease_until=timezone.now())
    except DatabaseError:
        logger.warning("Run %s is recovered when its lease ends.", run.pk)
