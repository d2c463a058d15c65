"""Who starts and answers: a process of its own, as a web server would be. Run by `processes.Producer`.

Reads one JSON object a line, {"do": name, …}, and writes its result. Times are `time.monotonic()`,
which on Linux and macOS is the same clock in every process.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
django.setup()

from django.conf import settings  # noqa: E402

from django_stephooks import resume_hook  # noqa: E402
from django_stephooks.models import Hook, Run  # noqa: E402

from . import floor, workflows  # noqa: E402
from .database import query  # noqa: E402

# The answerer looks this often; what it waits for is seen late by half of it.
LOOK_SECONDS = 0.0005


def start(count: int, *, workflow: str) -> dict[str, float]:
    """Start runs one after the other."""
    definition = getattr(workflows, workflow)
    began = time.monotonic()
    for number in range(count):
        definition.start(number)
    return {"began": began, "ended": time.monotonic()}


def resume(*, after: int) -> dict[str, float]:
    """Answer every hook of the runs behind the run `after`, one after the other."""
    tokens = [hook.token for hook in _asked(run_id__gt=after)]
    began = time.monotonic()
    for token in tokens:
        resume_hook(token, workflows.PAYLOAD)
    return {"began": began, "ended": time.monotonic()}


def resume_each(*, after: int) -> dict[str, list[float]]:
    """Answer them one at a time, on an idle system: seconds until the call returned, and the run ended."""
    answered, completed = [], []
    for hook in _asked(run_id__gt=after):
        time.sleep(0.02)
        token = hook.token
        began = time.monotonic()
        resume_hook(token, workflows.PAYLOAD)
        answered.append(time.monotonic() - began)
        _wait_until(hook.run_id, "completed")
        completed.append(time.monotonic() - began)
    return {"answered": answered, "completed": completed}


def ask_in_turn(count: int) -> float:
    """Seconds of a run that asks, waits, is answered, asks again, …"""
    began = time.monotonic()
    run = workflows.ask_in_turn.start(count)
    for _ in range(count):
        _wait_until(run.pk, "suspended")
        for hook in _asked(run=run):
            resume_hook(hook.token, workflows.PAYLOAD)
    return _wait_until(run.pk, "completed") - began


def ask_at_once(count: int) -> float:
    """Seconds of a run that asks everything, and is answered one by one while it is woken already."""
    began = time.monotonic()
    run = workflows.ask_at_once.start(count)
    _wait_until(run.pk, "suspended")
    for hook in _asked(run=run):
        resume_hook(hook.token, workflows.PAYLOAD)
    return _wait_until(run.pk, "completed") - began


def _asked(**of: Any) -> list[Hook]:
    return list(Hook.objects.pending().filter(**of).order_by("pk"))


def _wait_until(run: int, wanted: str) -> float:
    while True:
        ((status,),) = query(f"SELECT status FROM {Run._meta.db_table} WHERE id = %s", run)  # noqa: S608
        if status == wanted:
            return time.monotonic()
        if status == "failed":
            raise RuntimeError(f"Run {run} failed: {Run.objects.get(pk=run).error}")
        time.sleep(LOOK_SECONDS)


ACTIONS: dict[str, Any] = {
    action.__name__: action
    for action in (start, resume, resume_each, ask_in_turn, ask_at_once, floor.jobs, floor.round_trips)
}


def main() -> None:
    for line in sys.stdin:
        command = json.loads(line)
        action = ACTIONS[command.pop("do")]
        # With it nobody is told of what is ready: for what is measured with the worker alone.
        silent = command.pop("silent", False)
        settings.STEPHOOKS["RUNTIME"] = "benchmarks.silent.Silent" if silent else "rq"
        print(json.dumps(action(**command)), flush=True)


if __name__ == "__main__":
    main()
