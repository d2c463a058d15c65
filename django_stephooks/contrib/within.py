"""What the bridges to agent frameworks share: a call of their own within the step that calls them.

So an agent's state is kept in a checkpoint beside the step's own, and its questions stand below it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence

from django_stephooks.engine.frames import Frame, entered, require_frame
from django_stephooks.exceptions import StepHooksError
from django_stephooks.questions import Question


class Within:
    """The call in which an agent works: `step/name:n`."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame

    def call_of(self, name: str, key: str) -> str:
        return f"{self.frame.call}/{name}[{key}]"

    def have_been_read(self, name: str, keys: Iterable[str]) -> None:
        """These answers are part of the agent's state: its code does not come to them again."""
        for key in keys:
            self.frame.turn.journal.read(self.call_of(name, key))

    def give_up_others(self, questions: Sequence[Question], keys: Iterable[str]) -> list[str]:
        """Answers that do not count, because what they were about has changed since: it is asked anew.

        `keys`: of those whose answers the agent has got. Returns the keys of the others.
        """
        # Imported late: a module with workflows may be imported before models may.
        from django_stephooks.models import Event, Hook

        turn = self.frame.turn
        (name,) = {question.name for question in questions}
        kept = {*keys, *(str(question.key) for question in questions)}
        before = self.call_of(name, "")[:-1]
        given_up = [
            call.removeprefix(before)[:-1]
            for call, hook in turn.journal.hooks.items()
            if call.startswith(before) and hook.status == Hook.Status.RECEIVED
        ]
        given_up = [key for key in given_up if key not in kept]
        self.have_been_read(name, given_up)
        for key in given_up:
            warning = {"warning": "what this answer was about has changed: asked anew"}
            turn.event(Event.Type.STEP_WARNED, self.call_of(name, key), warning)
        return given_up


@contextlib.contextmanager
def call_within(name: str, function: str) -> Iterator[Within]:
    """Checkpoints, questions, `once` and `emit` inside belong to the call `step/name:n`.

    `function` is what the project called, for the error if that was not in a step.
    """
    frame = require_frame(function)
    if frame.parent is None:
        raise StepHooksError(
            f"{function}() was called in a workflow's own code. Call it in a step, so that what it does "
            "can be tried again and its result is recorded."
        )
    frame.gate()
    inner = Frame(frame.turn, frame.name_call(name), parent=frame, retries=frame.retries)
    try:
        with entered(inner):
            yield Within(inner)
    finally:
        if inner.error is not None:
            # Telling people failed: that is the step's failure, and its policy decides.
            frame.error, frame.failed_at = inner.error, inner.failed_at
