"""The durable calls: what a step, a hook, a `once` or a `sleep` does when the code comes to it.

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

from django_stephooks import codec
from django_stephooks.conf import app_settings
from django_stephooks.exceptions import HookTimeoutError, StepHooksError
from django_stephooks.models import Event, Hook
from django_stephooks.models.fields import Encoded
from django_stephooks.payloads import to_python
from django_stephooks.types import STEP_HOOK_TIMEOUT

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
        try:
            result = yield Invoke(step.function, frame, args, kwargs, timeout=step.timeout, what=what)
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


def ask(
    frame: Frame,
    hook: Hook,
    *,
    key: str | None,
    timeout: timedelta | None,
    on_created: Callable[[str], Any] | None,
    payload_schema: Any,
) -> Durable[Any]:
    """`step_hook`: open the hook once, tell people once, and wait for the answer without a worker."""
    turn = frame.turn
    frame.gate()
    call = frame.name_call(hook.name, key)
    turn.come_to(call, "hook")
    known = turn.journal.hooks.get(call)
    if known is None:
        turn.check_order(call)
        turn.refuse_open_transaction(call)
        hook.run, hook.call, hook.created_at = turn.run, call, timezone.now()
        hook.expires_at = hook.created_at + timeout if timeout else None
        turn.open_hook(hook)
        turn.collect_deletions(frame)
        if on_created is None and not turn.concurrent:
            # Nobody can know its token yet, so it may be stored together with the suspension.
            turn.waits_for.append(hook)
            raise frame.suspend()
        turn.flush()
    else:
        hook = turn.reopen(known) if known.status == Hook.Status.CANCELLED else known
    untold = hook.status == Hook.Status.PENDING and hook.notified_at is None
    # (A sibling that asks with the same key may be telling them right now.)
    if untold and on_created is not None and call not in turn.going:
        turn.check_lease()
        try:
            with turn.going_on(call):
                yield Invoke(on_created, frame, (hook.token,))
        except Exception as error:  # any failure of it: the step's retry policy applies
            frame.error, frame.failed_at = error, call
            raise SuspensionSignal from error
        hook.notified_at = timezone.now()
        turn.changes.notified.append(hook)
        if turn.concurrent:
            turn.flush()  # siblings may go on for long before the turn settles
        frame.gate()
        hook = turn.look_again(hook)
    if hook.is_past_deadline(timezone.now()):
        hook = turn.expire(hook)
    if hook.status == Hook.Status.PENDING:
        turn.waits_for.append(hook)
        raise frame.suspend()
    return answer_of(hook, payload_schema)


def answer_of(hook: Hook, payload_schema: Any) -> Any:
    """What `step_hook` returns, or raises, for a hook that is settled."""
    if hook.status == Hook.Status.RECEIVED:
        return hook.payload if payload_schema is None else to_python(payload_schema, hook.payload)
    if hook.on_timeout == Hook.OnTimeout.RETURN:
        return STEP_HOOK_TIMEOUT
    raise HookTimeoutError(
        f"Nobody answered hook {hook.name!r} of run {hook.run_id} before {hook.expires_at}."
    )


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
        with turn.going_on(call):
            result = yield Invoke(function, frame, args, kwargs)
            frame.gate()
            text = codec.dumps(result, root=f"once[{key}]")
            outcome = Outcome(True, result)
            turn.journal.outcomes[call] = outcome
            turn.event(Event.Type.ONCE_COMPLETED, call, Encoded(f'{{"result": {text}}}'))
            turn.collect_deletions(frame)
            turn.flush()
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
    return store.load_checkpoint(turn.run, frame.call)


def _accepts_checkpoints(frame: Frame) -> bool:
    """Not any more once the step waits or its worker lost it: a `finally:` on the way out changes nothing."""
    return not (frame.error or frame.turn.end or current_branch().stopped)
