"""A run that this worker can not work on is left to another one: while a release is rolled out, the
workers of the last one meet workflows, and recorded classes, that only the next one knows.

It waits like a run with a timer, so nothing spins; each worker that meets it says so in its journal;
and when nobody has known it for `DEPLOY_GRACE`, it fails.
"""

from __future__ import annotations

import logging
import socket
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from django_stephooks import signals
from django_stephooks.conf import app_settings
from django_stephooks.durations import parse_duration
from django_stephooks.exceptions import StepHooksError
from django_stephooks.models import Event, Run
from django_stephooks.models.statements import Changes, Entry
from django_stephooks.models.transactions import write_alias

from . import failures, store

logger = logging.getLogger("django_stephooks.engine")

# It is tried again after as long as it has been waiting already, but not sooner or later than this.
SHORTEST, LONGEST = timedelta(seconds=5), timedelta(minutes=1)
PROGRESS = (Event.Type.RUN_STARTED, Event.Type.RUN_RESUMED, Event.Type.RUN_RETRIED)


def postpone(run: Run, error: StepHooksError, *, facts: dict[str, Any]) -> str:
    """End the turn that could not begin; returns what came of it (`TurnWork.outcome`)."""
    now = timezone.now()
    since = _postponed_since(run) or now
    until = since + parse_duration(app_settings.DEPLOY_GRACE, name="DEPLOY_GRACE", allow_zero=True)
    if now >= until:
        logger.warning("Run %s (%s) failed: %s", run.pk, run.workflow, type(error).__name__)
        store.fail(run, Changes(), error=failures.describe(error), facts=facts, now=now)
        signals.send_after_commit(signals.run_finished, Run, using=write_alias(), run=run)
        return "failed"
    due_at = min(now + min(max(now - since, SHORTEST), LONGEST), until)
    logger.warning(
        "Run %s (%s) can not be worked on here (%s); it is left to a worker of another release.",
        run.pk, run.workflow, type(error).__name__,
    )  # fmt: skip
    warning = (
        f"A worker on {socket.gethostname()} could not work on it: {error} It is left to workers of another "
        f"release. If none of them can by {until:%Y-%m-%d %H:%M:%S %Z}, the run fails."
    )
    changes = Changes()
    changes.events.append(Entry(Event.Type.STEP_WARNED, "", {"warning": warning, "postponed": True}, now))
    store.suspend(run, changes, waits_for=[], due_at=due_at, facts=facts, now=now)
    return "suspended"


def _postponed_since(run: Run) -> datetime | None:
    """When the first worker met it that could not work on it, of those since one last could."""
    events = Event.objects.using(write_alias()).filter(run=run, type__in=(*PROGRESS, Event.Type.STEP_WARNED))
    since = None
    for type, data, at in events.order_by("pk").values_list("type", "data", "created_at"):
        if type in PROGRESS:
            since = None
        elif since is None and isinstance(data, dict) and data.get("postponed"):
            since = at
    return since
