"""What a test asks the tables."""

from __future__ import annotations

from django_stephooks.engine.worker import advance
from django_stephooks.models import Hook, Run


def hook_of(run: Run, call: str = "") -> Hook:
    """The run's question that waits; with `call`, that one, whatever became of it."""
    hooks = Hook.objects.filter(run=run)
    return hooks.get(call=call) if call else hooks.get(status=Hook.Status.PENDING)


def tokens_of(run: Run) -> list[str]:
    return [hook.token for hook in Hook.objects.filter(run=run).order_by("pk")]


def events_of(run: Run) -> list[str]:
    return list(run.events.values_list("type", flat=True))


def again(run: Run) -> Run:
    """The run as it is now."""
    run.refresh_from_db()
    return run


def worked(run: Run) -> Run:
    """The run after a worker did all that is ready: for tests in which nothing is ever committed."""
    while advance(run.queue):
        pass
    return again(run)
