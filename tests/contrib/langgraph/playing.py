"""What a test does with an agent's run: let a worker come, answer its questions."""

from __future__ import annotations

from typing import Any

from django_stephooks import resume_hook
from django_stephooks.engine.worker import advance
from django_stephooks.models import Hook, Run
from tests.engine.watching import again


def work(run: Run) -> Run:
    """A worker comes, and does what there is to do."""
    advance("default")
    return again(run)


def open_hooks(run: Run) -> dict[str, Hook]:
    """The questions that wait, by their titles."""
    return {hook.title: hook for hook in run.hooks.pending().order_by("pk")}


def answer(run: Run, payload: Any, title: str = "") -> Run:
    """Somebody answers (the one question, or that of this title), and a worker comes."""
    hooks = open_hooks(run)
    hook = hooks[title] if title else next(iter(hooks.values()))
    assert title or len(hooks) == 1, hooks
    resume_hook(hook.token, payload)
    return work(run)
