"""The durable calls: what a step, a `once` or a `sleep` does when the code comes to it (hooks: `asking`).

Each looks into the journal first and hands out what is recorded; the first that is not recorded
really happens. They are generators for `driving` (or plain functions, where they call nothing of
the project's).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.utils import timezone

from django_stephooks import codec, observers
from django_stephooks.conf import app_settings
from django_stephooks.exceptions import SerializationError, StepHooksError
from django_stephooks.models import Event
from django_stephooks.models.fields import Encoded

from . import failures, store
from .driving import Durable, Invoke, a_moment, adrive, drive
from .frames import Frame, SuspensionSignal, current_branch, holds_signal
from .journal import Outcome

logger = logging.getLogger("django_stephooks.engine")


def call_step(parent: Frame, step: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a step in a run; an awaitable if the step is `async def`."""
    durable = run_step(parent, step, args, kwargs)
    return adrive(durable) if step.is_async else drive(durable, step.call_name)


def run_step(parent: Frame, step: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Durable[Any]:
    """Hand out the recorded outcome; or run the step, recording what it comes to."""
    turn = parent.turn
    parent.gate()
    call = parent.name_call(step.call_name)
    error: BaseException | None = None
    outcome = turn.come_to(call, "step")
    if outcome is None:
        retrying = turn.journal.retrying.get(call)
        if retrying and retrying.due_at > timezone.now():
            turn.timers.append(retrying.due_at)
            raise parent.suspend()
        frame = Frame(turn, call, parent=parent, retries=step.retries)
        turn.start_step(frame)
        turn.check_lease()
        result = None
        what = f"Step {call!r} of run {turn.run.pk}"
        around = observers.around_step(turn.run, call, retrying.failed_attempts + 1 if retrying else 1)
        try:
            result = yield Invoke(
                step.body, frame, args, kwargs, timeout=step.timeout, what=what, around=around
            )
        except GeneratorExit:
            raise  # its task was cancelled: nothing to record
        except BaseException as raised:  # noqa: BLE001  (sorted out below, signals first)
            error = raised
        outcome = end_attempt(frame, result, error)
    if outcome.completed:
        return outcome.value
    # The first time, the exception itself, with its traceback.
    raise turn.raised_by(call, error if isinstance(error, Exception) else failures.rebuild(outcome.value))


def end_attempt(frame: Frame, result: Any, error: BaseException | None) -> Outcome:
    """Record what an attempt came to; raises the signal if the step waits, or is to be tried again."""
    turn = frame.turn
    if turn.end is not None:
        raise SuspensionSignal
    if frame.error is not None:
        error = frame.error
    elif frame.suspended:
        if not holds_signal(error):
            turn.warn_swallowed(frame, error)
        raise frame.suspend()
    elif error is not None and not isinstance(error, Exception):
        raise error  # the process is told to stop, or the task is cancelled: nothing to record
    if error is None:
        turn.check_answers_read(frame)
        try:
            text = codec.dumps(result, root="result")
        except StepHooksError as unstorable:
            error = unstorable
        else:
            outcome = Outcome(True, result)
            turn.chunks.end_call(frame.call, frame.emitted)
            turn.event(Event.Type.STEP_COMPLETED, frame.call, Encoded(f'{{"result": {text}}}'))
            turn.end_step(frame, outcome)
            return outcome
    return fail_attempt(frame, error)


def fail_attempt(frame: Frame, error: BaseException) -> Outcome:
    """The step's retry policy decides: failed, or again in a later turn (also if that is at once)."""
    turn, retried = frame.turn, frame.turn.journal.retrying
    # A workflow makes no attempts of its own; telling people of each of its hooks does.
    call = frame.call or frame.failed_at
    attempt = retried[call].failed_attempts + 1 if call in retried else 1
    delay = frame.retries.delay(attempt, error)
    recorded = failures.describe(error)
    if delay is None:
        outcome = Outcome(False, recorded)
        turn.event(Event.Type.STEP_FAILED, call, {"error": recorded, "attempt": attempt})
        turn.end_step(frame, outcome)
        return outcome
    due_at = timezone.now() + delay
    recorded.pop("args")
    turn.event(
        Event.Type.STEP_RETRYING,
        call,
        {"attempt": attempt, "due_at": due_at, "error": recorded},
    )
    turn.collect_deletions(frame)
    logger.info(
        "Run %s: attempt %d of %s failed; next at %s.",
        turn.run.pk,
        attempt,
        call,
        due_at,
    )
    turn.timers.append(due_at)
    raise (frame.parent or frame).suspend()


def run_once(
    frame: Frame,
    key: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Durable[Any]:
    """`once`: call the function unless its result is recorded; record it before going on."""
    turn = frame.turn
    frame.gate()
    call = frame.name_call("once", key)
    turn.come_to(call, "once")
    while call in turn.going:
        if turn.going[call] is current_branch():
            raise StepHooksError(f"once({key!r}) was called inside the function that once({key!r}) calls.")
        yield Invoke(a_moment)  # a sibling is at it: at most once means here too
        frame.gate()
    outcome = turn.journal.outcomes.get(call)
    if outcome is None:
        if frame.parent is None:
            turn.check_order(call)
        turn.check_lease()
        before = frame.emitted
        with turn.going_on(call):
            result = yield Invoke(function, frame, args, kwargs)
            frame.gate()
            text = codec.dumps(result, root=f"once[{key}]")
            outcome = Outcome(True, result, frame.emitted - before)
            turn.journal.outcomes[call] = outcome
            told = f', "emitted": {outcome.emitted}' if outcome.emitted else ""
            turn.event(Event.Type.ONCE_COMPLETED, call, Encoded(f'{{"result": {text}{told}}}'))
            turn.collect_deletions(frame)
            turn.flush()
    else:
        frame.emitted += outcome.emitted
    return outcome.value


def wait_until_due(frame: Frame, duration: timedelta) -> None:
    """`sleep`: the time is fixed when the code first comes here; wait for it without a worker."""
    turn = frame.turn
    frame.gate()
    call = frame.name_call("sleep")
    turn.come_to(call, "timer")
    due_at = turn.journal.timers.get(call)
    if due_at is None:
        if frame.parent is None:
            turn.check_order(call)
        due_at = timezone.now() + duration
        turn.event(Event.Type.TIMER_STARTED, call, {"due_at": due_at})
        turn.collect_deletions(frame)
    if due_at > timezone.now():
        turn.timers.append(due_at)
        raise frame.suspend()


def save_checkpoint(frame: Frame, data: Any) -> None:
    text = codec.dumps(
        data,
        root="checkpoint",
        max_bytes=app_settings.MAX_CHECKPOINT_BYTES,
        setting="MAX_CHECKPOINT_BYTES",
    )
    if not _accepts_checkpoints(frame):
        return
    frame.turn.save_checkpoint(frame, text)


def delete_checkpoint(frame: Frame) -> None:
    if _accepts_checkpoints(frame):
        frame.checkpoint = "deleted"


def load_checkpoint(frame: Frame) -> Any:
    turn = frame.turn
    # In its first turn a run has nothing stored but what was saved in this turn.
    if frame.checkpoint in ("deleted", "dropped") or not turn.has_checkpoints:
        return None
    found, emitted = store.load_checkpoint(turn.run, frame.call) or (None, 0)
    if isinstance(found, Encoded):
        raise SerializationError(
            f"The checkpoint of {frame.call!r} of run {turn.run.pk} can not be read any more: its class is "
            "gone or has changed. Put it back and retry the run, or cancel the run."
        )
    frame.emitted = max(frame.emitted, emitted)
    return found


def _accepts_checkpoints(frame: Frame) -> bool:
    """Not any more once the step waits or its worker lost it: a `finally:` on the way out changes nothing."""
    return not (frame.error or frame.turn.end or current_branch().stopped)
