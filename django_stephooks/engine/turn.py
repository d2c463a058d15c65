"""A turn: one stretch of work on a run, from claim to settle. The one file to read first.

    claim   `worker.work` takes a ready run from the database
    replay  the function is called from the top; recorded calls hand out what was recorded (`calls`)
    work    the first call that is not recorded really happens, and is recorded
    settle  the run is completed, failed, or suspended, in one transaction

If the process is killed anywhere in here, the run stays `running` until its lease ends; then the
sweep makes it ready, and the next turn replays up to the last thing that was recorded.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError, connections
from django.utils import timezone

from django_stephooks import codec, observers, signals
from django_stephooks.exceptions import (
    NonDeterminismError,
    RunLostError,
    SerializationError,
    StepHooksError,
    TurnTimeoutError,
    UnknownWorkflowError,
)
from django_stephooks.models import Event, Hook, Run
from django_stephooks.models.statements import Changes, Entry
from django_stephooks.models.transactions import write_alias
from django_stephooks.registry import get

from . import calls, failures, lease, store
from .chunks import Chunks
from .driving import Invoke
from .frames import Branch, Frame, SuspensionSignal, current_branch, holds_signal, start_branch
from .journal import Journal, Outcome
from .limits import shielded
from .postponing import postpone
from .retries import RetryPolicy

logger = logging.getLogger("django_stephooks.engine")


def run_turn(run: Run) -> None:
    """Make one turn on a run that was just claimed. Only a failure of the database itself is raised."""
    work = observers.TurnWork(run)
    with observers.around_turn(work):
        try:
            work.outcome = _run_turn(run, began=time.monotonic())
        except RunLostError:
            work.outcome = "lost"
            logger.info(
                "Run %s was taken over by another worker, or cancelled; turn %s is void.",
                run.pk,
                run.turn,
            )


def _run_turn(run: Run, *, began: float) -> str:
    """Returns what came of it: a `TurnWork.outcome`."""
    try:
        definition = get(run.workflow)
        journal = store.load(run) if run.turn > 1 else Journal()
        _ = run.arguments  # decoded now: what it can not read fails no code of the project
    except (UnknownWorkflowError, SerializationError) as error:
        return postpone(run, error, facts=_facts(began))
    turn = Turn(run, definition, journal, began=began)
    with lease.keep(run, definition.job_timeout):
        return contextvars.copy_context().run(turn.work)


def _facts(began: float) -> dict[str, Any]:
    """What the event that ends a turn tells of it."""
    return {"seconds": round(time.monotonic() - began, 4), **observers.carried()}


class Turn:
    """The state of one turn, shared by all its frames.

    `end` is why nothing more may happen in it: it was lost, its code does not fit, its time is up,
    or the database failed. `waits_for` and `timers` are what a suspended run waits for.
    """

    def __init__(self, run: Run, definition: Any, journal: Journal, *, began: float) -> None:
        self.run = run
        self.began = began
        self.definition = definition
        self.journal = journal
        self.changes = Changes()
        self.chunks = Chunks(run)
        self.waits_for: list[Hook] = []
        self.timers: list[datetime] = []
        self.end: BaseException | None = None
        self.lease_until = run.due_at or timezone.now()
        self.going: dict[str, Branch] = {}
        self.concurrent = False
        self.interrupted = False
        self.asked: list[str] = []
        self.raised: list[tuple[str, BaseException]] = []
        self.last_call = ""
        self.has_checkpoints = run.turn > 1
        self.depth = self._open_transactions()

    # --- working -------------------------------------------------------------------------------

    def work(self) -> str:
        """Call the function from the top, and settle what came of it; returns what that was."""
        if self.run.turn > 1:
            self.event(Event.Type.RUN_RESUMED)
        root = Frame(self, "", parent=None, retries=RetryPolicy())
        start_branch(Branch())
        result: Any = None
        error: BaseException | None = None
        try:
            result = self._call(root)
        except BaseException as raised:  # noqa: BLE001  (sorted out below)
            error = raised
        outcome = self._settle(root, result, error)
        self.chunks.close(outcome)
        return outcome

    def _call(self, root: Frame) -> Any:
        definition, arguments = self.definition, dict(self.run.arguments)
        # A step started on its own is called like one that a workflow calls.
        function = definition if definition.kind == "step" else definition.function
        args = arguments.pop("*", ())
        timeout = definition.job_timeout
        return Invoke(function, root, args, arguments, timeout=timeout, time_is_up=self._time_is_up).call()

    def _time_is_up(self) -> TurnTimeoutError:
        self.end = TurnTimeoutError(
            f"Run {self.run.pk} was at work for longer than its job_timeout of {self.definition.job_timeout}."
        )
        return self.end

    def _settle(self, root: Frame, result: Any, error: BaseException | None) -> str:
        if self.end is None and root.error is not None:
            try:
                if outcome := calls.fail_attempt(root, root.error):
                    self.end = StepHooksError(outcome.value["message"])
            except SuspensionSignal:
                pass  # it waits for its next attempt
        now = timezone.now()
        if isinstance(self.end, (RunLostError, OperationalError, InterfaceError)):
            raise self.end
        self.collect_deletions(root)
        if self.end is not None:
            return self._fail(root.error or self.end)
        if root.suspended or root.error is not None:
            # One of several tasks failed while others wait: gather() raises that, and caught no signal.
            beside = self.concurrent and isinstance(error, Exception)
            if not holds_signal(error) and not beside:
                self.warn_swallowed(root, error)
            return self._suspend(root, now)
        if isinstance(error, Exception):
            return self._fail(error)
        if error is not None:
            # The process is told to stop (or a signal without a suspension, which nobody raises).
            store.hand_back(self.run, now=now)
            raise error
        return self._complete(root, result, now)

    def _complete(self, root: Frame, result: Any, now: datetime) -> str:
        if unread := self.journal.first_unread(pending=False):
            return self._fail(self.does_not_fit(unread, "finished without it"))
        try:
            text = codec.dumps(result, root="result")
        except SerializationError as error:
            return self._fail(error)
        self._end_hooks_below(root)
        self.changes.drops_all_checkpoints = self.has_checkpoints
        store.complete(self.run, self.changes, result=text, facts=_facts(self.began), now=now)
        self._tell_finished()
        return "completed"

    def _suspend(self, root: Frame, now: datetime) -> str:
        # Code that waits for its next attempt, or was cancelled by a sibling, may come to the rest later.
        cut_short = self.interrupted or bool(self.timers)
        if self.asked and not cut_short and (unread := self.journal.first_unread(pending=False)):
            return self._fail(self.does_not_fit(unread, f"asked {self.asked[0]!r} instead"))
        new = list(self.changes.hooks)
        waits = store.suspend(
            self.run,
            self.changes,
            waits_for=self.waits_for,
            due_at=min(self.timers, default=None),
            facts=_facts(self.began),
            now=now,
        )
        for hook in new:
            signals.send_after_commit(signals.hook_created, Hook, using=write_alias(), hook=hook)
        return "suspended" if waits else "ready"

    def _fail(self, error: BaseException) -> str:
        logger.warning("Run %s (%s) failed: %s", self.run.pk, self.run.workflow, type(error).__name__)
        store.fail(
            self.run,
            self.changes,
            error=failures.describe(error),
            calls=self._calls_that_failed(error),
            facts=_facts(self.began),
            now=timezone.now(),
        )
        self._tell_finished()
        return "failed"

    def _calls_that_failed(self, error: BaseException) -> list[str]:
        """Failures that the code caught and dealt with stay as they are when the run is retried."""
        if isinstance(error, (NonDeterminismError, TurnTimeoutError)):
            return []
        causes = list(failures.causes(error))
        calls = [call for call, raised in self.raised if any(raised is cause for cause in causes)]
        # Nothing came of it that says so, but the code gave up right behind a failure.
        last = f"{self.last_call}/"
        return calls or [call for call, _ in self.raised if last.startswith(f"{call}/")]

    def raised_by(self, call: str, error: Exception) -> Exception:
        self.raised.append((call, error))
        return error

    def _tell_finished(self) -> None:
        signals.send_after_commit(signals.run_finished, Run, using=write_alias(), run=self.run)

    # --- what the durable calls ask of it ------------------------------------------------------

    def come_to(self, call: str, what: str) -> Outcome | None:
        """The code has come to this call: what is recorded of it, if it still is the same thing."""
        self.last_call = call
        self.journal.read(call)
        recorded = "hook" if call in self.journal.hooks else "step" if call in self.journal.outcomes else None
        if recorded and (recorded == "hook") != (what == "hook"):
            self.stop(self.does_not_fit(call, f"has a {what} of that name now", recorded))
        return self.journal.outcomes.get(call)

    def check_order(self, call: str) -> None:
        """Before something new happens: whatever is recorded must have been read by now.

        Only where code runs in one line; concurrent code is looked at when it settles.
        """
        if not self.concurrent and (unread := self.journal.first_unread(pending=True)):
            self.stop(self.does_not_fit(unread, f"came to {call!r} instead"))

    def check_answers_read(self, frame: Frame) -> None:
        """A step may not complete without having read what it was answered."""
        if unread := self.journal.first_unread_answer(frame.call):
            self.stop(self.does_not_fit(unread, f"completed {frame.call!r} without it"))

    def does_not_fit(self, call: str, came: str, what: str | None = None) -> NonDeterminismError:
        what = what or self.journal.unread.get(call, "call")
        return NonDeterminismError(
            f"The code of {self.run.workflow} does not fit run {self.run.pk} any more: it recorded the "
            f"{what} {call!r}, but the code {came}. Put the {what} back and retry the run, or cancel the run."
        )

    def stop(self, why: BaseException) -> None:
        """Nothing more happens in this turn."""
        self.end = why
        raise SuspensionSignal from why

    def start_step(self, frame: Frame) -> None:
        if frame.call not in self.journal.started:
            if frame.parent is not None and frame.parent.parent is None:
                self.check_order(frame.call)
            self.journal.started.add(frame.call)
            self.event(Event.Type.STEP_STARTED, frame.call)

    def end_step(self, frame: Frame, outcome: Outcome) -> None:
        """A step's outcome is stored before the code goes on (a lone step's together with its run's)."""
        self.journal.outcomes[frame.call] = outcome
        self._end_hooks_below(frame)
        self.collect_deletions(frame)
        if self.definition.kind == "step" and frame.parent is not None and frame.parent.parent is None:
            return
        if outcome.completed and self.has_checkpoints:
            self.changes.dropped_checkpoints.append(frame.call)
        self.flush()

    def _end_hooks_below(self, frame: Frame) -> None:
        below = f"{frame.call}/" if frame.call else ""
        for call, hook in self.journal.hooks.items():
            if hook.status == Hook.Status.PENDING and call.startswith(below):
                self.changes.ended.append(call)

    def open_hook(self, hook: Hook) -> None:
        self.journal.hooks[hook.call] = hook
        self.changes.hooks.append(hook)
        self.asked.append(hook.call)
        self.event(Event.Type.HOOK_CREATED, hook.call, {"expires_at": hook.expires_at})

    def look_again(self, hooks: Iterable[Hook]) -> None:
        """At the hooks as they are now: they may have been answered since."""
        told = {hook.call: hook.notified_at for hook in hooks}
        for fresh in store.reload_hooks(hooks):
            fresh.notified_at = told[fresh.call]
            self.journal.hooks[fresh.call] = fresh

    def expire(self, hooks: Sequence[Hook]) -> None:
        self._guarded(
            store.expire_hooks, self.run, hooks, now=timezone.now(), lease_until=self._lease_until()
        )
        self.look_again(hooks)

    def reopen(self, hooks: Sequence[Hook]) -> None:
        self._guarded(
            store.reopen_hooks, self.run, hooks, now=timezone.now(), lease_until=self._lease_until()
        )
        self.look_again(hooks)

    def refuse_open_transaction(self, call: str, what: str) -> None:
        if self._open_transactions() > self.depth:
            raise StepHooksError(
                f"{what}() was called inside transaction.atomic() ({call!r} of run {self.run.pk}). "
                "Waiting leaves the block and would roll back everything in it: ask before or after it."
            )

    def _open_transactions(self) -> int:
        return len(connections[write_alias()].atomic_blocks)

    def warn_swallowed(self, frame: Frame, error: BaseException | None) -> None:
        came = f"raised {type(error).__name__}" if error is not None else "returned"
        where = frame.call or self.run.workflow
        logger.warning(
            "Run %s: %s caught the suspension of a hook or timer and %s; it is suspended all the same.",
            self.run.pk, where, came,
        )  # fmt: skip
        self.event(Event.Type.STEP_WARNED, frame.call, {"warning": f"suspension caught; the code {came}"})

    # --- writing -------------------------------------------------------------------------------

    def event(self, type: Event.Type, call: str = "", data: Any = None) -> None:
        """Written with the next `flush`, or when the turn settles."""
        self.changes.events.append(Entry(type, call, {} if data is None else data, timezone.now()))

    def collect_deletions(self, frame: Frame | None) -> None:
        """Checkpoints that this call and those around it deleted go with its next event."""
        while frame is not None:
            if frame.checkpoint == "deleted":
                self.changes.dropped_checkpoints.append(frame.call)
                frame.checkpoint = "dropped"
            frame = frame.parent

    def save_checkpoint(self, frame: Frame, text: str) -> None:
        now, until = timezone.now(), self._lease_until()
        self._guarded(
            store.save_checkpoint, self.run, frame.call, text, frame.emitted, now=now, lease_until=until
        )
        frame.checkpoint = "stored"
        self.has_checkpoints = True
        self.changes.dropped_checkpoints = [
            call for call in self.changes.dropped_checkpoints if call != frame.call
        ]

    def flush(self) -> None:
        """Write what is to be written now; when this returns, it is recorded."""
        if changes := self.changes:
            self.changes = Changes()
            self._guarded(
                store.record, self.run, changes, now=timezone.now(), lease_until=self._lease_until()
            )
            for hook in changes.hooks:
                signals.send_after_commit(signals.hook_created, Hook, using=write_alias(), hook=hook)

    def _guarded(self, write: Any, *args: Any, **kwargs: Any) -> None:
        # Neither may be caught by the project's code: the turn is over.
        try:
            with shielded():
                write(*args, **kwargs)
        except (RunLostError, DatabaseError) as error:
            self.stop(error)

    @contextlib.contextmanager
    def going_on(self, call: str) -> Iterator[None]:
        """For siblings to see that this one call is being made."""
        self.going[call] = current_branch()
        try:
            yield
        finally:
            del self.going[call]

    def check_lease(self) -> None:
        """Before code of the project is called: a process that was stopped for a while begins nothing more.

        The heartbeat's renewals are not known here, so a long turn may look once a lease in vain.
        """
        if timezone.now() >= self.lease_until:
            self._guarded(
                store.record, self.run, Changes(), now=timezone.now(), lease_until=self._lease_until()
            )

    def _lease_until(self) -> datetime:
        self.lease_until = timezone.now() + lease.lease()
        return self.lease_until
