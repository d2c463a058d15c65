"""Waits for all and for the first: answers, deadlines and cancels in every order, killed at every moment.

Whatever happens, each question becomes what `Oracle` says, in the very moment of the answer; the run goes on
when its wait is decided, and not before; nobody is told of what is decided; and each answer stands.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from django_stephooks import cancel_run, resume_hook
from django_stephooks.engine.worker import advance
from django_stephooks.exceptions import (
    HookAlreadyReceivedError,
    HookCancelledError,
    HookExpiredError,
    RunStateError,
)
from django_stephooks.models import Hook, Run
from django_stephooks.services.sweep import sweep
from tests.clock import Clock
from tests.engine.killing import Process

from . import waits

pytestmark = pytest.mark.django_db(transaction=True)

REFUSALS = {
    "received": HookAlreadyReceivedError,
    "expired": HookExpiredError,
    "cancelled": HookCancelledError,
}

questions = st.fixed_dictionaries(
    {
        "timeout": st.sampled_from([None, "1m", "3m", "10m"]),
        "on_timeout": st.sampled_from(["raise", "return", "suspend"]),
        "tells": st.booleans(),
    }
)
programs = st.lists(
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["all", "first"]), "questions": st.lists(questions, min_size=2, max_size=4)}
    ),
    min_size=1,
    max_size=2,
)
who = st.integers(0, 7)
answers = st.sampled_from([None, False, 0, "", [], {}, "yes", {"approved": True}])
working = st.one_of(
    st.just(("work",)),
    st.tuples(st.just("work, and be killed"), st.integers(1, 12)),
    # While the n-th is told, somebody answers.
    st.tuples(st.just("work, and while one is told"), st.integers(1, 3), who, answers),
)
happenings = st.one_of(
    working,
    st.tuples(st.just("answer"), who, answers),
    st.tuples(st.just("answer, and be killed"), st.integers(1, 4), who, answers),
    st.tuples(st.just("pass"), st.sampled_from(["1m", "2m", "5m"])),
    st.just(("sweep",)),
    st.just(("cancel",)),
)


class Story:
    """What happens to one run, and what the oracle says of it."""

    def __init__(self, definition: Any, program: list[dict[str, Any]], clock: Clock) -> None:
        self.clock = clock
        self.process = Process()
        self.oracle = waits.Oracle(program, clock)
        self.run: Run = definition.start(program)
        self.meanwhile: tuple[int, int, Any] | None = None
        self.attempt: tuple[int, Any] | None = None
        self.telling = -1
        self.told_twice_is_fine: set[int] = set()
        # An assertion that fails while somebody is told would count as telling that failed.
        self.wrong: list[AssertionError] = []
        waits.on_told[:] = [self.tell]

    # --- what happens ----------------------------------------------------------------------------

    def happen(self, what: str, *details: Any) -> None:
        if what == "work":
            self.work()
        elif what == "answer":
            self.answer(*details)
        elif what == "pass":
            self.clock.advance(*details)
        elif what == "sweep":
            sweep()
        elif what == "work, and be killed":
            self.killed(details[0], self.work)
        elif what == "answer, and be killed":
            self.killed(details[0], lambda: self.answer(*details[1:]))
        elif what == "work, and while one is told":
            self.meanwhile = details  # type: ignore[assignment]
            self.work()
            self.meanwhile = None
        elif what == "cancel":
            self.cancel()
        self.look()

    def work(self) -> None:
        """A turn, if there is one to make: it goes on to the first wait that is not decided."""
        if advance("default") is not None:
            self.notice()
            asked = {self.oracle.wait_of[number] for number in self.oracle.status}
            if self.again().status == Run.Status.SUSPENDED:
                assert not self.oracle.is_decided(max(asked))

    def answer(self, who: int, payload: Any) -> None:
        hooks = self.hooks()
        if not hooks:
            return
        index = sorted(hooks)[who % len(hooks)]
        hook = hooks[index]
        self.notice()
        self.attempt = (index, payload)
        try:
            resume_hook(hook.token, payload)
        except tuple(REFUSALS.values()) as refused:
            came = "refused: " + next(status for status, kind in REFUSALS.items() if type(refused) is kind)
        else:
            came = "received"
        self.attempt = None
        expected = self.oracle.answer(index, payload)
        if expected == "refused: expired" and self.oracle.is_cancelled:
            return  # the run was over before anybody noticed
        assert came == expected

    def tell(self, token: str) -> None:
        try:
            self.told(token)
        except AssertionError as wrong:
            self.wrong.append(wrong)

    def told(self, token: str) -> None:
        (hook,) = [hook for hook in Hook.objects.filter(run=self.run) if hook.token == token]
        self.notice()
        number = self.oracle.number(hook)
        if self.oracle.program[self.oracle.wait_of[number]]["kind"] == "first":
            assert hook.status == Hook.Status.PENDING, "nobody is told of a race that is over"
        assert self.oracle.told[number] == 0 or number in self.told_twice_is_fine
        self.telling = number
        self.oracle.told[number] += 1
        if self.meanwhile is not None:
            countdown, index, payload = self.meanwhile
            self.meanwhile = (countdown - 1, index, payload) if countdown > 1 else None
            if countdown == 1:
                self.answer(index, payload)

    def killed(self, point: int, action: Any) -> None:
        self.process.begin(point)
        self.telling = -1
        with self.process.living():
            action()
        if len(self.process.points) < point:
            return
        # Whoever was told last may have to be told again: nobody wrote down that they were.
        self.told_twice_is_fine.add(self.telling)
        self.notice()
        if self.attempt is not None:
            index, payload = self.attempt
            self.attempt = None
            if self.hooks()[index].status == Hook.Status.RECEIVED and index not in self.oracle.payloads:
                assert self.oracle.answer(index, payload) == "received"

    def cancel(self) -> None:
        try:
            cancel_run(self.run)
        except RunStateError:
            assert self.again().is_finished
        else:
            self.notice()
            self.oracle.cancel()

    # --- what must be true -----------------------------------------------------------------------

    def again(self) -> Run:
        self.run.refresh_from_db()
        return self.run

    def hooks(self) -> dict[int, Hook]:
        return {self.oracle.number(hook): hook for hook in Hook.objects.filter(run=self.run)}

    def notice(self) -> None:
        for hook in self.hooks().values():
            self.oracle.notice(hook)
        if not self.oracle.is_cancelled:
            self.oracle.time_passed()

    def look(self) -> None:
        assert not self.wrong, self.wrong
        self.notice()
        for number, hook in self.hooks().items():
            status = self.oracle.status[number]
            if hook.is_past_deadline(self.clock.now):
                assert status == "expired"
            elif self.oracle.is_cancelled and status == "expired":
                assert hook.status in (
                    "expired",
                    "cancelled",
                )  # nobody had noticed, and then the run was over
            else:
                assert hook.status == status
            assert hook.payload == self.oracle.payloads.get(number)
            assert type(hook.payload) is type(self.oracle.payloads.get(number))
        run = self.again()
        if run.status == Run.Status.COMPLETED:
            assert run.result == self.oracle.result()
        else:
            assert run.status != Run.Status.FAILED, run.error

    def works_until_nothing_is_ready(self) -> None:
        """It stops where the oracle says: at the first wait that is not decided."""
        sweep()
        while self.again().status == Run.Status.PENDING:
            self.work()
        self.look()
        if self.run.status == Run.Status.SUSPENDED:
            assert not all(self.oracle.is_decided(wait) for wait in range(len(self.oracle.program)))

    def ends(self) -> None:
        for _ in range(40):
            self.works_until_nothing_is_ready()
            if self.run.is_finished:
                break
            for place, (_, hook) in enumerate(sorted(self.hooks().items())):
                if hook.is_waiting() and self.run.status == Run.Status.SUSPENDED:
                    self.happen("answer", place, "in the end")
                    break
            self.clock.advance("2m")
            sweep()
        assert self.run.status == (Run.Status.CANCELLED if self.oracle.is_cancelled else Run.Status.COMPLETED)
        for number, options in enumerate(self.oracle.options):
            assert options["tells"] or not self.oracle.told[number]


def test_waits_for_all_and_for_the_first_whatever_happens(clock, settings):
    settings.STEPHOOKS = {"RUNTIME": "tests.engine.conftest.NobodyComes", "MAX_RECOVERIES": 1000}

    # To make a failing example smaller takes longer than a test may; Phase.shrink does it, if added here.
    @hypothesis_settings(phases=(Phase.explicit, Phase.reuse, Phase.generate), report_multiple_bugs=False)
    @given(
        definition=st.sampled_from(waits.DEFINITIONS),
        program=programs,
        begins=working,
        what_happens=st.lists(happenings, min_size=3, max_size=14),
    )
    def whatever_happens(definition: Any, program: Any, begins: Any, what_happens: list[Any]) -> None:
        clock.now = Clock().now
        story = Story(definition, program, clock)
        try:
            for what in [begins, *what_happens]:
                story.happen(*what)
            story.ends()
        finally:
            Run.objects.all().delete()

    whatever_happens()
