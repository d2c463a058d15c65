"""Start, cancel and retry runs. The decorators' `.start()` and all faces come through here."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from django.conf import settings
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import ImproperlyConfigured
from django.db import IntegrityError, transaction
from django.utils import timezone

from django_stephooks import codec, observers, signals
from django_stephooks.conf import app_settings
from django_stephooks.exceptions import RunStateError
from django_stephooks.models import Event, Hook, Run
from django_stephooks.models.fields import Encoded
from django_stephooks.models.statements import Entry, statements, tell
from django_stephooks.models.transactions import retried, transact, write_alias
from django_stephooks.runtimes.base import ring_after_commit
from django_stephooks.texts import plain_text

from .actors import actor_from


def start(
    workflow: str,
    arguments: dict[str, Any],
    *,
    queue: str | None = None,
    max_recoveries: int | None = None,
    key: str | None = None,
    subject: Any = None,
    started_by: Any = None,
) -> Run:
    """Store a run that is ready, and ring the bell once the surrounding transaction has committed."""
    if not settings.USE_TZ:
        # A system check says so too, but not every way to start a process runs the checks.
        raise ImproperlyConfigured(
            "USE_TZ is False: a deadline would jump when the clocks change. Set USE_TZ = True."
        )
    queue = plain_text(queue or app_settings.QUEUE, "queue", max_length=100)
    text = codec.dumps(arguments, root="arguments")
    if key is not None:
        key = plain_text(key, "key", max_length=200)
    try:
        return _start(workflow, text, queue, max_recoveries, key, subject, started_by)
    except IntegrityError:
        # Another one with this key, at the same time. It is looked for behind the transaction,
        # which need not see what was committed after it began.
        runs = Run.objects.using(write_alias())
        known = runs.filter(workflow=workflow, key=key).first() if key is not None else None
        if known is None:
            raise
        return known


@retried
def _start(
    workflow: str,
    arguments: str,
    queue: str,
    max_recoveries: int | None,
    key: str | None,
    subject: Any,
    started_by: Any,
) -> Run:
    alias, now = write_alias(), timezone.now()
    runs = Run.objects.using(alias)
    if key is not None and (known := runs.filter(workflow=workflow, key=key).first()):
        return known
    actor = actor_from(started_by)
    run = Run(
        workflow=workflow,
        queue=queue,
        key=key,
        due_at=now,
        arguments=Encoded(arguments),
        max_recoveries=app_settings.MAX_RECOVERIES if max_recoveries is None else max_recoveries,
        created_at=now,
        started_by_id=actor.user_id,
    )
    if subject is not None:
        run.subject_type = ContentType.objects.db_manager(alias).get_for_model(subject)
        run.subject_id = str(subject.pk)
    data = {**({"by": actor.label} if actor.label else {}), **observers.carried()}
    entry = Entry(Event.Type.RUN_STARTED, "", data, now)
    # With a key it may fail, and must not take a transaction of the caller's with it.
    with transaction.atomic(using=alias) if key is not None else nullcontext():
        statements(alias).start(run, entry)
    tell(run, [entry], using=alias)
    ring_after_commit(queue, using=alias)
    return run


@transact
def cancel_run(run: Run | int, *, by: Any = None, reason: str = "") -> Run:
    """End a run for good: its questions are no longer asked, and a turn at work on it writes nothing more.

    `by`: a user, or a string that says who. RunStateError if it is completed or cancelled already.
    """
    actor, now = actor_from(by), timezone.now()
    locked = lock_run(run)
    if not Run.objects.using(locked._state.db).filter(pk=locked.pk).cancel(now=now):
        raise RunStateError(f"Run {locked.pk} is {locked.status} already; there is nothing to cancel.")
    data = {"by": actor.label, "by_id": actor.user_id, "reason": reason}
    close_run(locked, Event.Type.RUN_CANCELLED, data, now=now, why="run cancelled")
    # Not its records: one that can not be read must not keep a run from being cancelled.
    locked.refresh_from_db(using=locked._state.db, fields=["status", "due_at", "finished_at"])
    return locked


@transact
def retry_run(run: Run | int, *, by: Any = None, reason: str = "") -> Run:
    """Let a failed run go on from what it has recorded: what failed is done again.

    `by`: a user, or a string that says who. RunStateError if it has not failed.
    """
    actor, now = actor_from(by), timezone.now()
    locked = lock_run(run)
    alias = locked._state.db
    if not Run.objects.using(alias).filter(pk=locked.pk).retry(now=now):
        raise RunStateError(f"Run {locked.pk} is {locked.status}; only a failed run can be retried.")
    data = {"by": actor.label, "by_id": actor.user_id, "reason": reason, **observers.carried()}
    event = Event(run=locked, type=Event.Type.RUN_RETRIED, data=data, created_at=now)
    Event.objects.using(alias).record(event)
    ring_after_commit(locked.queue, using=str(alias))
    locked.refresh_from_db(using=alias, fields=["status", "due_at", "finished_at", "error", "recoveries"])
    return locked


def lock_run(run: Run | int) -> Run:
    """The run's row, locked: every change from outside begins here, and goes on to its hooks."""
    pk = run.pk if isinstance(run, Run) else run
    return Run.objects.using(write_alias()).select_for_update().get(pk=pk)


def close_run(run: Run, type: Event.Type, data: dict[str, Any], *, now: Any, why: str) -> None:
    """What the end of a run means for its questions and its journal. The caller holds its row."""
    alias = str(run._state.db)
    hooks = Hook.objects.using(alias).filter(run=run).cancel(now=now, reason=why)
    Event.objects.using(alias).record(Event(run=run, type=type, data=data, created_at=now))
    for hook in hooks:
        signals.send_after_commit(signals.hook_cancelled, Hook, using=alias, hook=hook)
    signals.send_after_commit(signals.run_finished, Run, using=alias, run=run)
