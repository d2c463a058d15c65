"""Helpers for people who test their own workflows, with `STEPHOOKS = {"RUNTIME": "inline"}`.

Turns run right after a commit, so use `TransactionTestCase` (`django_db(transaction=True)`), or
`captureOnCommitCallbacks(execute=True)` in a `TestCase`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any
from unittest import mock

from django.utils import timezone

from .durations import parse_duration
from .models import Hook, Run
from .services.hooks import resume_hook
from .services.streams import Watch
from .services.sweep import sweep


def waiting_hook(run: Run, name: str | None = None) -> Hook:
    """The one hook that this run waits for (of this name); AssertionError with what there is otherwise.

    `name`: its name, or the end of its call: "approve", "approve:2", "approve[key]".
    """
    hooks = list(Hook.objects.filter(run=run).waiting(timezone.now()))
    found = [hook for hook in hooks if name in (None, hook.name, hook.call.rpartition("/")[2])]
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


def chunks(run: Run, call: str | None = None) -> list[Any]:
    """What somebody who watched this run has got in the end, in order; of one call if it is given."""
    watch = Watch(run)
    got: list[dict[str, Any]] = []
    while messages := watch.look():
        for message in messages:
            told = json.loads(message.data)
            if message.event == "restart":
                got = []
            elif message.event == "rewind":
                got = [had for had in got if had["call"] != told["call"] or had.get("n", -1) < told["n"]]
            elif message.event == "chunk":
                got.append(told)
        if watch.over:
            break
    return [had["chunk"] for had in got if call in (None, had["call"])]


@contextlib.contextmanager
def later(duration: Any) -> Iterator[None]:
    """`with later("25h"):` the clock is that far ahead, and a sweep has come by."""
    ahead, now = parse_duration(duration, name="later"), timezone.now
    with mock.patch.object(timezone, "now", lambda: now() + ahead):
        sweep()
        yield
