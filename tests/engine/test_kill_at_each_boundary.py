"""Killed before and after every commit, and around telling people: each run ends once, nobody is left untold.

Each scenario is played once to count its commit points, and then once for each of them, with the
process killed there. Whoever was waiting then does what people do: they call `start` again with the same
key, they press the button again. Leases end, sweeps come by, workers come back.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection

from django_stephooks import (
    aio,
    load_step_checkpoint,
    once,
    question,
    resume_hook,
    save_step_checkpoint,
    sleep,
    step,
    step_hook,
    wait_all,
    wait_first,
    workflow,
)
from django_stephooks.engine.frames import current_frame
from django_stephooks.engine.worker import advance
from django_stephooks.exceptions import HookAlreadyReceivedError
from django_stephooks.models import Event, Hook, Run, StepCheckpoint
from django_stephooks.services.sweep import sweep

from .killing import Process
from .watching import again, did

pytestmark = pytest.mark.django_db(transaction=True)

process = Process()


def act(what: str) -> None:
    """A side effect: killed right before it, or right behind it."""
    process.point(f"before {what}")
    did.append(what)
    process.point(f"after {what}")


def tell(token: str) -> None:
    (hook,) = [hook for hook in Hook.objects.filter(status=Hook.Status.PENDING) if hook.token == token]
    act(f"tell {hook.call}")


async def atell(token: str) -> None:
    await sync_to_async(tell)(token)


def work(what: str) -> str:
    act(f"{current_frame().call} {what}")
    return what


# --- scenarios ---------------------------------------------------------------------------------------------


@step(max_retries=0)
def lone() -> Any:
    """One checkpoint, one hook, one `once`."""
    state = load_step_checkpoint()
    if state is None:
        state = {"state": work("sets up")}
        save_step_checkpoint(state)
    answer = step_hook("approve", on_created=tell)
    return [state, answer, once("charge", work, "charges")]


@step(max_retries=2, retry_delay="10s")
def fails_at_first() -> str:
    work("tries")
    if sum(what.endswith("tries") for what in did) == 1:
        raise ConnectionError("not now")
    return "got through"


@step
def simple(name: str) -> str:
    return work(name)


@workflow
def everything() -> Any:
    """Two steps, a retry, a timer, a hook that is answered, one that expires, one nested in a step."""
    first = simple("first")
    through = fails_at_first()
    agreed = step_hook("agree", on_created=tell, timeout="30d")
    sleep("1h")
    nobody = step_hook("nobody", timeout="3h", on_timeout="return", on_created=tell)
    nested = asks_below()
    return [first, through, agreed, bool(nobody), nested, simple("last")]


@step
def asks_below() -> Any:
    return [simple("below"), step_hook("inside")]


@workflow
async def side_by_side() -> Any:
    """Two questions and two steps at once, in one run."""

    @step
    async def one(name: str) -> Any:
        return [await sync_to_async(simple)(name), await aio.step_hook("approve", on_created=atell)]

    return await asyncio.gather(one("a"), one("b"))


@workflow
def many_at_once() -> Any:
    """Three who must all answer, and three of whom the first one is enough."""
    answers = wait_all(*(question(name, on_created=tell) for name in ("editor", "lawyer", "chief")))
    return [*answers, first_of_three()]


@step(max_retries=0)
def first_of_three() -> Any:
    who, answer = wait_first(*(question("approve", key=key, on_created=tell) for key in "abc"))
    return [who.key, answer]


@workflow(max_recoveries=2)
def fails_in_the_end() -> None:
    step_hook("approve", on_created=tell, timeout="30d")
    simple("last")
    raise ValueError("in the end")


@dataclass(frozen=True, kw_only=True)
class Scenario:
    definition: Any
    ends: str = Run.Status.COMPLETED
    at_once: int = 1  # how many calls are made side by side
    result: Any = None


SCENARIOS = {
    "a lone step": Scenario(definition=lone, result=[{"state": "sets up"}, "yes, approve:1", "charges"]),
    "everything": Scenario(
        definition=everything,
        result=["first", "got through", "yes, agree:1", False, ["below", "yes, inside:1"], "last"],
    ),
    "side by side": Scenario(
        definition=side_by_side, at_once=2, result=[["a", "yes, approve:1"], ["b", "yes, approve:1"]]
    ),
    "many at once": Scenario(
        definition=many_at_once,
        result=["yes, editor:1", "yes, lawyer:1", "yes, chief:1", ["a", "yes, approve[a]"]],
    ),
    "a run that fails": Scenario(definition=fails_in_the_end, ends=Run.Status.FAILED),
}


def payload_for(hook: Hook) -> str:
    return f"yes, {hook.call.rpartition('/')[2]}"


class Play:
    """Plays a scenario to its end, whatever is killed on the way, and looks at what was left."""

    def __init__(self, scenario: Scenario, clock: Any) -> None:
        self.scenario = scenario
        self.clock = clock
        self.given: dict[str, str] = {}
        self.recorded_at_kill: dict[str, int] = {}
        self.told_at_kill: set[str] = set()
        self.killed_in = ""
        self.last_acts: list[str] = []

    def to_the_end(self) -> Run:
        run = self.alive(lambda: self.scenario.definition.using(key="one").start())
        run = run or self.scenario.definition.using(key="one").start()
        for _ in range(30):
            self.workers_come()
            if again(run).is_finished:
                break
            # People answer what they have been told of.
            waiting = Hook.objects.filter(run=run, status=Hook.Status.PENDING).exclude(name="nobody")
            if run.status == Run.Status.SUSPENDED and (hook := waiting.order_by("pk").first()):
                self.answer(hook)
                continue
            # Leases end, timers are due; in the end the deadline passes.
            self.clock.advance("2h")
            self.alive(sweep)
        return run

    def workers_come(self) -> None:
        while True:
            made = self.alive(lambda: advance("default"))
            if made is None and not Run.objects.filter(status=Run.Status.PENDING).exists():
                return

    def answer(self, hook: Hook) -> None:
        payload = payload_for(hook)
        if self.alive(lambda: resume_hook(hook.token, payload)) is None:
            # The page showed an error, so the button is pressed again.
            try:
                resume_hook(hook.token, payload)
            except HookAlreadyReceivedError as refused:
                assert refused.hook.payload == payload
        self.given[hook.call] = payload

    def alive(self, action: Callable[[], Any]) -> Any:
        """What the action of a process returned; None if it was killed."""
        result = None
        before = len(process.points)
        with process.living():
            result = action()
        if process.kill_at and before < process.kill_at <= len(process.points):
            self.look_at_what_is_left()
        return result

    def look_at_what_is_left(self) -> None:
        self.killed_in = process.points[-1]
        acts = Counter(did)
        self.last_acts = did[-self.scenario.at_once :]
        for call in Event.objects.filter(
            type__in=(Event.Type.STEP_COMPLETED, Event.Type.ONCE_COMPLETED)
        ).values_list("call", flat=True):
            step_call, _, last = call.rpartition("/")
            name = step_call if last.startswith("once[") else call
            for what, count in acts.items():
                if what.startswith(f"{name} ") and (last == "once[charge]") == what.endswith("charges"):
                    self.recorded_at_kill[what] = count
        for hook in Hook.objects.exclude(notified_at=None):
            self.told_at_kill.add(f"tell {hook.call}")


def play(scenario: Scenario, clock: Any, kill_at: int | None) -> tuple[Play, Run, Counter[str]]:
    process.begin(kill_at)
    did.clear()
    played = Play(scenario, clock)
    run = played.to_the_end()
    return played, run, Counter(did)


def wipe() -> None:
    for model in (StepCheckpoint, Hook, Event, Run):
        model.objects.all().delete()


def check(scenario: Scenario, played: Play, run: Run, acts: Counter[str], usual: Counter[str]) -> None:
    where = f"killed {played.killed_in}"
    # It ended, once, with the result that it always has.
    assert Run.objects.count() == 1, where
    assert run.status == scenario.ends, (where, run.error)
    assert run.result == scenario.result, where
    ends = ("run_completed", "run_failed", "run_cancelled")
    assert run.events.filter(type__in=ends).count() == 1, where
    assert not StepCheckpoint.objects.exists() or scenario.ends == Run.Status.FAILED
    # Nothing was recorded twice.
    recorded = Counter(
        run.events.exclude(type__startswith="run_").exclude(type="step_retrying").values_list("type", "call")
    )
    assert set(recorded.values()) == {1}, (where, recorded)
    # The answers given are the answers that stand.
    for hook in Hook.objects.all():
        expected = played.given.get(hook.call)
        assert hook.payload == expected, where
        assert (hook.status == Hook.Status.RECEIVED) == (expected is not None), where
    # What was recorded was not done again; and only what the kill hit was done twice.
    for what, count in played.recorded_at_kill.items():
        assert acts[what] == count, (where, what)
    for what, count in usual.items():
        assert count <= acts[what] <= count + 1, (where, what, acts)
    assert set(acts) == set(usual), where
    # And of that only what was going on.
    assert (acts - usual) <= Counter(played.last_acts), (where, acts - usual)
    # Nobody was left untold; and told twice only if it was killed while it told them.
    for what in played.told_at_kill:
        assert acts[what] == 1, (where, what)


@pytest.fixture
def usual(no_worker: None, clock: Any) -> Any:
    """How a scenario goes when nobody is killed: its acts, and how many commit points it has."""

    sweep()  # the very first one writes more

    def usual(scenario: Scenario) -> tuple[Counter[str], list[str]]:
        played, run, acts = play(scenario, clock, None)
        check(scenario, played, run, acts, acts)
        points = list(process.points)
        wipe()
        return acts, points

    return usual


@pytest.mark.parametrize("name", SCENARIOS)
def test_killed_at_each_boundary_every_run_ends_once_and_nobody_is_left_untold(name, usual, clock):
    scenario = SCENARIOS[name]
    acts_of_a_quiet_day, points = usual(scenario)
    assert len(points) > 20
    for number, where in enumerate(points, start=1):
        played, run, acts = play(scenario, clock, number)
        assert played.killed_in == where
        check(scenario, played, run, acts, acts_of_a_quiet_day)
        wipe()


def test_and_by_a_real_sigkill(usual, clock, tmp_path):
    """The same, with nothing of the dying process's own doing: another process, and SIGKILL."""
    scenario = SCENARIOS["a lone step"]
    acts_of_a_quiet_day, points = usual(scenario)
    began = clock.now
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "STEPHOOKS_TEST_DB_NAME": str(connection.settings_dict["NAME"]),
    }
    for number in range(2, len(points), len(points) // 5):
        clock.now = began
        acts_file = tmp_path / f"{number}.txt"
        acts_file.touch()
        child = subprocess.run(
            [sys.executable, "-m", f"{__package__}.killed_child", "a lone step", str(number), acts_file],
            env=environment,
            cwd=Path(__file__).parents[2],
            check=False,
        )
        assert child.returncode == -signal.SIGKILL
        process.begin(None)
        did[:] = acts_file.read_text().splitlines()
        played = Play(scenario, clock)
        process.points.append(points[number - 1])
        played.look_at_what_is_left()
        for hook in Hook.objects.filter(status=Hook.Status.RECEIVED):
            played.given[hook.call] = payload_for(hook)
        clock.advance("2h")
        sweep()
        run = played.to_the_end()
        check(scenario, played, run, Counter(did), acts_of_a_quiet_day)
        wipe()
