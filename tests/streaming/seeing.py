"""What is in a run's stream, and how its turns are made here."""

from __future__ import annotations

import json
from typing import Any

from django_stephooks.engine.worker import advance
from django_stephooks.models import Run
from django_stephooks.runtimes.base import get_runtime
from django_stephooks.services.streams import Message, Watch
from django_stephooks.testing import answer
from tests.streaming import workflows


def turn(run: Run) -> Run:
    """The run, one turn later."""
    assert advance("default") == run
    run.refresh_from_db()
    return run


def started(name: str) -> Run:
    return turn(workflows.run_step.start(name))


def answered(run: Run, payload: Any = "yes") -> Run:
    answer(run, payload)
    return turn(run)


def entries(run: Run) -> list[tuple[str, Any]]:
    """Kind and data of all that was ever sent."""
    found = get_runtime().stream(run).read("")
    return [(entry.kind, json.loads(entry.text)) for entry in found if entry.kind != "turn"]


def sent(run: Run) -> list[Any]:
    """The chunks that were sent, also those taken back."""
    return [data["chunk"] for kind, data in entries(run) if kind == "chunk"]


def got(watch: Watch) -> list[Message]:
    """All that there is for it now."""
    messages: list[Message] = []
    while not watch.over and (new := watch.look()):
        messages += new
    return messages
