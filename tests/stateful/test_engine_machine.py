"""Anything in any order: runs are started, worked on, killed, stolen, answered, expired, cancelled, retried.

Whatever happens: the first answer stands; what is recorded is never done again; what is over stays over;
a suspended run waits for exactly what it says; a sweep forgets nothing; and in the end every run ends.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import Phase
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from django_stephooks import cancel_run, resume_hook, retry_run
from django_stephooks.engine.worker import advance
from django_stephooks.exceptions import (
    HookAlreadyReceivedError,
    HookCancelledError,
    HookExpiredError,
    RunStateError,
)
from django_stephooks.models import Event, Hook, Run
from django_stephooks.runtimes.base import Runtime
from django_stephooks.services.sweep import sweep
from tests.clock import Clock
from tests.engine.killing import Process

from . import programs

pytestmark = pytest.mark.django_db(transaction=True)

QUEUE = "machine"
MAX_RUNS = 3
# The only reasons for which such a run may fail. Above all it never "does not fit".
REASONS = {
    "builtins:LookupError",  # `broken`
    "builtins:ConnectionError",  # nobody could be told
    "django_stephooks.exceptions:HookTimeoutError",
    "django_stephooks.exceptions:RunLostError",
}
# What a journal may say several times: a run is retried, and so are steps.
REPEATED = {
    *("run_suspended", "run_resumed", "run_recovered", "run_failed", "run_retried"),
    *("step_retrying", "step_failed", "hook_cancelled", "hook_reopened"),
}
rung: list[str] = []


class NotedBells(Runtime):
    """Nobody comes: the machine makes the turns."""

    def ring(self, queue: str) -> None:
        rung.append(queue)


minutes = st.sampled_from([1, 3, 10]).map("{}m".format)
hook_options = st.fixed_dictionaries(
    {
        "timeout": st.none() | minutes,
        "on_timeout": st.sampled_from(["raise", "return", "suspend"]),
        "on_created": st.sampled_from(list(programs.TELLING)),
    }
)
things = st.one_of(
    st.tuples(st.just("hook"), hook_options),
    st.tuples(st.just("asks"), hook_options),
    st.tuples(st.just("plain"), st.sampled_from(["a", "b"])),
    st.tuples(st.just("once"), st.sampled_from(["x", "y"])),
    st.tuples(st.just("sleep"), minutes),
    st.tuples(st.just("flaky"), st.integers(1, 2)),
    st.tuples(st.just("broken"), st.none()),
)
answers = st.sampled_from([None, False, 0, "", [], {}, "yes", {"approved": True}])


class Machine(RuleBasedStateMachine):
    clock: Clock

    def __init__(self) -> None:
        super().__init__()
        self.world = programs.world
        self.world.__init__()
        self.clock.now = Clock().now
        self.process = Process()
        self.given: dict[int, Any] = {}
        self.over: dict[int, tuple[Any, ...]] = {}

    # --- what is there ---------------------------------------------------------------------------

    def runs(self) -> list[Run]:
        return list(Run.objects.order_by("pk"))

    def pick(self, rows: list[Any], index: int) -> Any:
        return rows[index % len(rows)]

    def has_runs(self) -> bool:
        return Run.objects.exists()

    def has_hooks(self) -> bool:
        return Hook.objects.exists()

    # --- what may happen -------------------------------------------------------------------------

    @precondition(lambda self: Run.objects.count() < MAX_RUNS)
    @rule(
        definition=st.sampled_from([programs.in_a_row, programs.in_one_step, programs.side_by_side]),
        program=st.lists(things, min_size=1, max_size=4),
    )
    def start(self, definition: Any, program: list[Any]) -> None:
        definition.using(queue=QUEUE).start(program)

    @precondition(has_runs)
    @rule(turns=st.integers(1, 3))
    def work(self, turns: int) -> None:
        for _ in range(turns):
            advance(QUEUE)

    @precondition(has_runs)
    @rule(point=st.integers(1, 8))
    def work_and_be_killed(self, point: int) -> None:
        self.process.begin(point)
        with self.process.living():
            advance(QUEUE)

    @precondition(has_runs)
    @rule(act=st.integers(0, 3), what=st.sampled_from(["cancel", "steal", "answer"]), payload=answers)
    def work_and_be_interrupted(self, act: int, what: str, payload: Any) -> None:
        self.world.interrupt_after = act
        self.world.interrupt = {
            "cancel": lambda: self.cancel(0),
            "steal": self.another_worker_takes_over,
            "answer": lambda: self.answer(-1, payload),
        }[what]
        advance(QUEUE)
        self.world.interrupt = None

    def another_worker_takes_over(self) -> None:
        self.clock.advance("2m")
        sweep()
        advance(QUEUE)

    @precondition(has_hooks)
    @rule(index=st.integers(0, 20), payload=answers)
    def answer(self, index: int, payload: Any) -> None:
        hooks = list(Hook.objects.select_related("run").order_by("pk"))
        if not hooks:
            return
        hook = self.pick(hooks, index)
        try:
            resume_hook(hook.token, payload)
        except HookAlreadyReceivedError as refused:
            assert refused.hook.payload == self.given[hook.pk]
        except HookExpiredError:
            assert hook.pk not in self.given
            assert hook.status == Hook.Status.EXPIRED or hook.is_past_deadline(self.clock.now)
        except HookCancelledError:
            assert hook.pk not in self.given
            assert hook.status == Hook.Status.CANCELLED or hook.run.is_finished
        else:
            assert hook.pk not in self.given
            assert hook.is_waiting(self.clock.now)
            assert not hook.run.is_finished
            self.given[hook.pk] = payload

    @precondition(has_runs)
    @rule(index=st.integers(0, MAX_RUNS))
    def cancel(self, index: int) -> None:
        run = self.pick(self.runs(), index)
        try:
            cancel_run(run)
        except RunStateError:
            assert run.status in (Run.Status.COMPLETED, Run.Status.CANCELLED)
        else:
            self.over.pop(run.pk, None)  # a failed run may be cancelled

    @precondition(has_runs)
    @rule(index=st.integers(0, MAX_RUNS), mend=st.booleans())
    def retry(self, index: int, mend: bool) -> None:
        run = self.pick(self.runs(), index)
        self.world.mended = self.world.mended or mend
        try:
            retry_run(run)
        except RunStateError:
            assert run.status != Run.Status.FAILED
        else:
            assert run.status == Run.Status.FAILED
            self.over.pop(run.pk, None)

    @rule(duration=st.sampled_from(["10s", "1m", "5m", "20m"]))
    def pass_time(self, duration: str) -> None:
        self.clock.advance(duration)

    @rule()
    def sweep(self) -> None:
        rung.clear()
        sweep()
        now = self.clock.now
        assert not Run.objects.lease_ended(now).exists()
        assert not Run.objects.timers_due(now).exists()
        assert not Hook.objects.past_deadline(now).exists()
        if Run.objects.ready().filter(due_at__lte=now - timedelta(seconds=10)).exists():
            assert QUEUE in rung

    # --- what is always true ---------------------------------------------------------------------

    @invariant()
    def everything_holds(self) -> None:
        """Three queries look at everything: this runs after every rule."""
        runs = self.runs()
        hooks: dict[int, list[Hook]] = {run.pk: [] for run in runs}
        for hook in Hook.objects.order_by("pk"):
            hooks[hook.run_id].append(hook)
        events: dict[int, list[Event]] = {run.pk: [] for run in runs}
        for event in Event.objects.order_by("pk"):
            events[event.run_id].append(event)

        assert self.world.wrong == [], (
            "what is recorded is not done again, whoever was told is not told again"
        )
        for run in runs:
            for hook in hooks[run.pk]:
                self.the_first_answer_stands(hook)
                self.nobody_is_left_untold(hook)
            pending = {hook.call for hook in hooks[run.pk] if hook.status == Hook.Status.PENDING}
            self.over_is_over(run, pending)
            self.it_waits_for_exactly_what_it_says(run, pending, events[run.pk])
            self.the_journal_says_everything_once(run, events[run.pk])

    def the_first_answer_stands(self, hook: Hook) -> None:
        assert (hook.status == Hook.Status.RECEIVED) == (hook.pk in self.given)
        assert hook.payload == self.given.get(hook.pk)
        assert type(hook.payload) is type(self.given.get(hook.pk))

    def nobody_is_left_untold(self, hook: Hook) -> None:
        if hook.notified_at is not None:
            assert self.world.told[hook.pk] >= 1

    def over_is_over(self, run: Run, pending: set[str]) -> None:
        if run.is_finished:
            now = (run.status, run.result, run.error, run.finished_at, run.turn)
            assert self.over.setdefault(run.pk, now) == now
            assert not pending
            assert run.status != Run.Status.FAILED or run.error["type"] in REASONS, run.error
        else:
            assert run.pk not in self.over

    def it_waits_for_exactly_what_it_says(self, run: Run, pending: set[str], events: list[Event]) -> None:
        if run.status == Run.Status.SUSPENDED:
            said = [event.data for event in events if event.type == Event.Type.RUN_SUSPENDED][-1]
            assert run.due_at == said.get("due_at")
            assert said["waits_for"] or run.due_at
            assert set(said["waits_for"]) <= pending
            # A question whose telling is to be tried again is not waited for yet.
            assert pending == set(said["waits_for"]) or run.due_at

    def the_journal_says_everything_once(self, run: Run, events: list[Event]) -> None:
        kept = [(event.type, event.call) for event in events if event.type not in REPEATED]
        assert len(kept) == len(set(kept)), kept
        ends = [type for type, _ in kept if type in ("run_completed", "run_cancelled")]
        assert ends == ([f"run_{run.status}"] if run.status in ("completed", "cancelled") else [])

    # --- and in the end --------------------------------------------------------------------------

    def teardown(self) -> None:
        try:
            self.let_everything_end()
        finally:
            Run.objects.all().delete()

    def let_everything_end(self) -> None:
        self.world.mended = True
        for _ in range(60):
            if not Run.objects.active().exists():
                break
            while advance(QUEUE):
                pass
            for index in range(Hook.objects.count()):
                self.answer(index, "in the end")
            self.clock.advance("2m")
            self.sweep()
        for run in self.runs():
            assert run.is_finished
            if run.status == Run.Status.COMPLETED:
                self.look_at_the_result(run)
        self.everything_holds()

    def look_at_the_result(self, run: Run) -> None:
        """Each question has its own answer, and no other one's."""
        hooks = {hook.call: hook.pk for hook in run.hooks.all()}
        counted: Counter[str] = Counter()
        prefix = "in_one_step:1/" if run.workflow.endswith("in_one_step") else ""
        for (kind, argument), result in zip(run.arguments["program"], run.result, strict=True):
            counted[kind] += 1
            if kind in ("plain", "once"):
                assert result == argument
            elif kind == "hook":
                call = f"{prefix}ask:{counted[kind]}"
                assert result == self.given.get(hooks[call], "nobody answered")
            elif kind == "asks":
                call = f"{prefix}asks:{counted[kind]}/ask:1"
                assert result == [self.given.get(hooks[call], "nobody answered"), "after"]


def test_whatever_happens_in_whatever_order(clock, settings):
    settings.STEPHOOKS = {"RUNTIME": f"{__name__}.NotedBells"}
    Machine.clock = clock
    # Examples of this size find in a test's time what longer ones do; and to make a failing one smaller
    # takes longer than a test may (its blob reproduces it, with Phase.shrink added here).
    options = hypothesis_settings(
        stateful_step_count=20,
        phases=(Phase.explicit, Phase.reuse, Phase.generate),
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(Machine, settings=options)
