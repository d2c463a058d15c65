"""Helpers for people who test their own workflows, with `STEPHOOKS = {"RUNTIME": "inline"}`.

Turns run right after a commit, so use `TransactionTestCase` (`django_db(transaction=True)`), or
`captureOnCommitCallbacks(execute=True)` in a `TestCase`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from django.utils import timezone

from .durations import parse_duration
from .models import Hook, Run
from .services.hooks import resume_hook
from .services.sweep import sweep


def waiting_hook(run: Run, name: str | None = None) -> Hook:
    """The one hook that this run waits for (of this name); AssertionError with what there is otherwise."""
    hooks = list(Hook.objects.filter(run=run).waiting(timezone.now()))
    found = [hook for hook in hooks if name in (None, hook.name)]
    if len(found) != 1:
        run.refresh_from_db()
        asked = ", ".join(hook.call for hook in hooks) or "nothing"
        raise AssertionError(f"{run} is {run.status} and waits for {asked}; wanted one hook {name or ''}.")
    return found[0]


def answer(run: Run, payload: Any = None, *, name: str | None = None, by: Any = None) -> Run:
    """Answer the hook that this run waits for, and return the run as it is afterwards."""
    resume_hook(waiting_hook(run, name).token, payload, by=by)
    run.refresh_from_db()
    return run


@contextlib.contextmanager
def later(duration: Any) -> Iterator[None]:
    """`with later("25h"):` the clock is that far ahead, and a sweep has come by."""
    ahead, now = parse_duration(duration, name="later"), timezone.now
    with mock.patch.object(timezone, "now", lambda: now() + ahead):
        sweep()
        yield
