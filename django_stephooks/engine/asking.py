"""Asking people: `step_hook` asks one question, `wait_all` and `wait_first` ask several at once.

All questions of a wait are stored together, then people are told of one after the other, and then the
turn ends once for all of them. A wait that is decided hands out what was answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NoReturn

from django.utils import timezone

from django_stephooks.exceptions import HookTimeoutError
from django_stephooks.models import Hook
from django_stephooks.payloads import to_python
from django_stephooks.questions import Question
from django_stephooks.types import STEP_HOOK_TIMEOUT

from .driving import Durable, Invoke
from .frames import Frame, SuspensionSignal


def ask_one(frame: Frame, question: Question) -> Durable[Any]:
    wait = Wait(frame, [question], "step_hook")
    yield from wait.until_decided()
    return answer_of(*wait.asked[0])


def ask_all(frame: Frame, questions: Sequence[Question]) -> Durable[list[Any]]:
    wait = Wait(frame, questions, "wait_all")
    yield from wait.until_decided()
    return [answer_of(question, hook) for question, hook in wait.asked]


def ask_first(frame: Frame, questions: Sequence[Question]) -> Durable[tuple[Question, Any]]:
    if not questions:
        raise ValueError("wait_first() was given no question: nobody could ever answer.")
    wait = Wait(frame, questions, "wait_first", is_race=True)
    yield from wait.until_decided()
    for question, hook in wait.asked:
        if hook.status == Hook.Status.RECEIVED:
            return question, answer_of(question, hook)
    # Nobody answered in time: if one of them is to raise, the first of those does.
    silence = [answer_of(question, hook) for question, hook in wait.asked]
    return questions[0], silence[0]


def answer_of(question: Question, hook: Hook) -> Any:
    """What `step_hook` returns, or raises, for a hook that is settled."""
    if hook.status == Hook.Status.RECEIVED:
        schema = question.payload_schema
        return hook.payload if schema is None else to_python(schema, hook.payload)
    if hook.on_timeout == Hook.OnTimeout.RETURN:
        return STEP_HOOK_TIMEOUT
    raise HookTimeoutError(
        f"Nobody answered hook {hook.name!r} of run {hook.run_id} before {hook.expires_at}."
    )


class Wait:
    """Questions that are waited for together. In a race, the first answer cancels the others.

    Hooks that race have the same `race`, the call of one of them: by it an answer finds the others.
    """

    def __init__(
        self, frame: Frame, questions: Sequence[Question], what: str, *, is_race: bool = False
    ) -> None:
        self.frame = frame
        self.turn = frame.turn
        self.questions = questions
        self.what = what
        self.is_race = is_race
        self.calls: list[str] = []

    @property
    def asked(self) -> list[tuple[Question, Hook]]:
        """The questions with their hooks as far as these are known, in the order given."""
        known = self.turn.journal.hooks
        pairs = zip(self.questions, self.calls, strict=True)
        return [(question, known[call]) for question, call in pairs if call in known]

    def having(self, status: str) -> list[Hook]:
        return [hook for _, hook in self.asked if hook.status == status]

    def until_decided(self) -> Durable[None]:
        """Ask whatever was not asked before. Raises the signal unless there is something to hand out."""
        turn = self.turn
        self.frame.gate()
        self._come_to_calls()
        if self.is_race:
            self._check_race()
            if self.having(Hook.Status.RECEIVED):
                return
        self._reopen()
        if new := self._open():
            nobody_told = not any(question.on_created for question in self.questions)
            if nobody_told and new == len(self.calls) and not turn.concurrent:
                # Nobody can know their tokens yet, so they may be stored together with the suspension.
                self._suspend()
            turn.flush()
        if (yield from self._tell()):
            turn.look_again(self.having(Hook.Status.PENDING))
        now = timezone.now()
        if late := [hook for hook in self.having(Hook.Status.PENDING) if hook.is_past_deadline(now)]:
            turn.expire(late)
        if self.having(Hook.Status.PENDING):  # of a race that was won, nothing is
            self._suspend()

    def _suspend(self) -> NoReturn:
        self.turn.waits_for.extend(self.having(Hook.Status.PENDING))
        raise self.frame.suspend()

    def _come_to_calls(self) -> None:
        for question in self.questions:
            if not isinstance(question, Question):
                raise TypeError(f"{self.what}() takes what question(…) makes, not {question!r}.")
        self.calls = [self.frame.name_call(question.name, question.key) for question in self.questions]
        for call, count in Counter(self.calls).items():
            if count > 1:
                raise ValueError(f"{self.what}() was given {call!r} {count} times: give each its own key.")
            self.turn.come_to(call, "hook")

    def _check_race(self) -> None:
        """What was asked outside this race does not know it: an answer would not cancel the others."""
        for _, hook in self.asked:
            if hook.race is None or hook.race != self.asked[0][1].race:
                came = "waits for it in another wait_first()"
                self.turn.stop(self.turn.does_not_fit(hook.call, came, "hook"))

    def _reopen(self) -> None:
        """A retried run asks again what was cancelled when it failed; but never what lost a race."""
        cancelled = self.having(Hook.Status.CANCELLED)
        races = {hook.race: hook.call for hook in cancelled if hook.race is not None}
        for hook in self.turn.journal.hooks.values():
            if hook.race in races and hook.status == Hook.Status.RECEIVED:
                came = f"waits for {races[hook.race]!r} without it"
                self.turn.stop(self.turn.does_not_fit(hook.call, came, "hook"))
        if cancelled:
            self.turn.reopen(cancelled)

    def _open(self) -> int:
        """Make the hooks that are not known; how many."""
        turn, known = self.turn, self.turn.journal.hooks
        pairs = zip(self.questions, self.calls, strict=True)
        new = [(question, call, question.hook()) for question, call in pairs if call not in known]
        if not new:
            return 0
        turn.check_order(new[0][1])
        turn.refuse_open_transaction(new[0][1], self.what)
        race = None
        if self.is_race:
            race = self.asked[0][1].race if self.asked else self.calls[0]
        now = timezone.now()
        for question, call, hook in new:
            hook.run, hook.call, hook.race, hook.created_at = turn.run, call, race, now
            hook.expires_at = now + question.timeout if question.timeout else None
            turn.open_hook(hook)
        turn.collect_deletions(self.frame)
        return len(new)

    def _tell(self) -> Durable[bool]:
        """Call each `on_created` that was not called yet. Whether there was one."""
        turn, told = self.turn, False
        for question, call in zip(self.questions, self.calls, strict=True):
            tell = question.on_created
            if tell is None or not self._is_untold(call):
                continue
            if told:
                # Killed from here on, only the next one is told again.
                turn.flush()
                if self.is_race:
                    turn.look_again(self.having(Hook.Status.PENDING))
                    if not self._is_untold(call):
                        continue
            turn.check_lease()
            hook = turn.journal.hooks[call]
            try:
                with turn.going_on(call):
                    yield Invoke(tell, self.frame, (hook.token,))
            except Exception as error:  # any failure of it: the step's retry policy applies
                self.frame.error, self.frame.failed_at = error, call
                raise SuspensionSignal from error
            told = True
            hook.notified_at = timezone.now()
            turn.changes.notified.append(hook)
            if turn.concurrent:
                turn.flush()  # siblings may go on for long before the turn settles
            self.frame.gate()
        return told

    def _is_untold(self, call: str) -> bool:
        hook = self.turn.journal.hooks[call]
        is_untold = hook.status == Hook.Status.PENDING and hook.notified_at is None
        # (A sibling that asks with the same key may be telling them right now.)
        return is_untold and call not in self.turn.going
