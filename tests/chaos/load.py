"""Those who use the site: they start runs, answer questions through two doors each, and cancel.

What a question's name begins with says what will become of it:

    ask     is answered soon
    edge    is answered at its deadline, give or take a moment
    never   is left to its deadline
    over    is answered after its deadline, with on_timeout="suspend"
    left    is not answered at all, and has no deadline: its run waits for it to the end
"""

from __future__ import annotations

import functools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from django.db import DatabaseError, close_old_connections
from django.utils import timezone

from django_stephooks import StepHooksError
from django_stephooks.models import Hook, Run
from django_stephooks.services.runs import cancel_run, retry_run

from . import workflows
from .diary import note
from .doors import DOORS, Site, answer

# Runs started each second, unless so many are ready that the workers can not keep up (which says
# nothing, and would only be waited for in the end).
RATE = 8.0
MOST_READY = 40
PEOPLE = 24
LOOK_EVERY = 0.15
ONE_IN = {"cancelled": 25, "left": 40}


class Load:
    def __init__(self, seed: int, site: Site, directory: Path) -> None:
        self.chance = random.Random(seed + 1)
        self.site, self.directory = site, directory
        self.people = ThreadPoolExecutor(PEOPLE)
        self.starting = True
        self.looking = True
        self.started = self.ready = 0
        self.busy: set[int] = set()
        self.to_repair: set[int] = set()
        self.made_up: Counter[str] = Counter()
        self.threads = [threading.Thread(target=target) for target in (self._start_runs, self._look)]

    def begin(self) -> None:
        for thread in self.threads:
            thread.start()

    def no_more_runs(self) -> None:
        self.starting = False
        self.threads[0].join()

    def end(self) -> None:
        self.starting = self.looking = False
        for thread in self.threads:
            thread.join()
        self.people.shutdown()

    # --- starting ---

    def _start_runs(self) -> None:
        while self.starting:
            time.sleep(1 / RATE)
            if self.ready > MOST_READY:
                continue
            self.started += 1
            uid = f"u{self.started}"
            definition, arguments, expected = self._invent(uid)
            run = self._insist(functools.partial(definition.using(key=uid).start, **arguments))
            note(
                "run",
                uid=uid,
                run=run.pk,
                workflow=run.workflow,
                expected=expected,
                silent=_silent(arguments),
            )
            if definition is workflows.repair:
                self.to_repair.add(run.pk)
            if self.chance.random() < 1 / ONE_IN["cancelled"]:
                self.people.submit(self._later, self.chance.uniform(0, 4), self._cancel, run.pk)

    def _insist(self, action: Callable[[], Any]) -> Any:
        """Again until the database takes it: with its key, a run is started once however often."""
        while True:
            try:
                return action()
            except DatabaseError:
                time.sleep(0.2)
            finally:
                close_old_connections()

    def _invent(self, uid: str) -> tuple[Any, dict[str, Any], list[str]]:
        """A workflow, its arguments, and the statuses it may end with."""
        chance = self.chance
        kind = chance.choices(
            ("publish", "rounds", "naps", "pay", "toil", "repair", "council", "lone", "work"),
            (6, 3, 2, 3, 0.3, 0.5, 2, 1, 1),
        )[0]
        if kind in ("publish", "lone"):
            question = self._question("")
            expected = ["failed"] if question.get("uncaught") else ["completed"]
            if question["name"].startswith("edge") and question.get("uncaught"):
                expected = ["failed", "completed"]
            if question["name"].startswith("left"):
                expected = ["suspended"]
            if kind == "lone":
                return workflows.review, {"label": "lone", "question": question}, expected
            seconds = chance.choice([0, 0, 0.05, 0.3])
            return workflows.publish, {"uid": uid, "question": question, "seconds": seconds}, expected
        if kind == "rounds":
            questions = [self._question(str(n), caught=True) for n in range(chance.randint(1, 5))]
            return workflows.rounds, {"uid": uid, "questions": questions}, self._all_answered(questions)
        if kind == "council":
            questions = [self._question(str(n), caught=True) for n in range(chance.randint(1, 4))]
            arguments = {"uid": uid, "questions": questions, "nap": round(chance.uniform(0.1, 2), 2)}
            return workflows.council, arguments, self._all_answered(questions)
        if kind == "naps":
            lengths = [round(chance.uniform(0.05, 2), 2) for _ in range(chance.randint(1, 4))]
            return workflows.naps, {"uid": uid, "lengths": lengths}, ["completed"]
        if kind == "pay":
            return workflows.pay, {"uid": uid, "odds": chance.choice([0, 0.1, 0.3])}, ["completed"]
        if kind == "toil":
            return workflows.toil, {"uid": uid, "seconds": round(chance.uniform(3.5, 5), 1)}, ["completed"]
        if kind == "repair":
            return workflows.repair, {"uid": uid}, ["completed"]
        return workflows.work, {"label": "alone", "seconds": 0.05}, ["completed"]

    def _all_answered(self, questions: list[dict[str, Any]]) -> list[str]:
        left = any(question["name"].startswith("left") for question in questions)
        return ["suspended"] if left else ["completed"]

    def _question(self, suffix: str, *, caught: bool = False) -> dict[str, Any]:
        chance = self.chance
        telling = chance.choices(tuple(workflows.TELLING), (2, 6, 2, 1))[0]
        fate = chance.choices(("ask", "edge", "never", "over"), (12, 3, 3, 1))[0]
        if chance.random() < 1 / ONE_IN["left"]:
            fate = "left"
        question: dict[str, Any] = {"name": f"{fate}{suffix}", "telling": telling}
        if fate in ("edge", "never"):
            question["timeout"] = round(chance.uniform(1, 5), 2)
            question["on_timeout"] = chance.choice(["raise", "return"])
            if not caught and question["on_timeout"] == "raise":
                question["uncaught"] = chance.random() < 0.5
        elif fate == "over":
            question |= {"timeout": round(chance.uniform(0.3, 1.5), 2), "on_timeout": "suspend"}
        elif fate == "ask" and chance.random() < 0.3:
            question |= {"timeout": 600, "on_timeout": "return"}
        return question

    # --- answering ---

    def _look(self) -> None:
        while self.looking:
            try:
                self._look_once()
            except DatabaseError:
                pass  # it is away; it comes back
            finally:
                close_old_connections()
            time.sleep(LOOK_EVERY)

    def _look_once(self) -> None:
        self.ready = Run.objects.ready().count()
        for hook in Hook.objects.pending().order_by("pk"):
            if hook.pk not in self.busy and not hook.name.startswith(("left", "never")):
                self.busy.add(hook.pk)
                self.people.submit(self._later, self._moment(hook), self._answer_twice, hook)
        if self.to_repair:
            for run in Run.objects.filter(pk__in=self.to_repair, status=Run.Status.FAILED):
                self.to_repair.discard(run.pk)
                (self.directory / f"mended-{run.arguments['uid']}").touch()
                self.people.submit(self._retry, run.pk)

    def _moment(self, hook: Hook) -> float:
        """In how many seconds it is to be answered."""
        left = (hook.expires_at - timezone.now()).total_seconds() if hook.expires_at else 0.0
        if hook.name.startswith("edge"):
            return max(0, left + self.chance.uniform(-0.3, 0.15))
        if hook.name.startswith("over"):
            return max(0, left + self.chance.uniform(0.1, 1))
        return self.chance.expovariate(2)

    def _answer_twice(self, hook: Hook) -> None:
        """Through two doors, at once or one soon after the other; and sometimes once more."""
        chance = random.Random(hook.pk)
        doors = chance.sample(sorted(DOORS), 2)
        pause = chance.choice([0, 0, 0.05, 0.5])
        try:
            second = threading.Thread(target=self._later, args=(pause, self._answer, hook, doors[1]))
            second.start()
            self._answer(hook, doors[0])
            second.join()
            if chance.random() < 0.1:
                self._answer(hook, chance.choice(doors))
        finally:
            # If nobody could tell what became of it, it is looked at again.
            self.busy.discard(hook.pk)

    def _answer(self, hook: Hook, door: str) -> None:
        self.made_up[door] += 1
        uid = f"a{hook.pk}-{time.monotonic_ns():x}"
        outcome = answer(self.site, hook, door, uid, approved=hook.pk % 3 != 0)
        self.made_up[outcome] += 1

    def _later(self, pause: float, action: Callable[..., None], *args: Any) -> None:
        time.sleep(pause)
        try:
            action(*args)
        except Exception as error:
            note("load failed", error=f"{type(error).__name__}: {error}", action=action.__name__)
            raise

    def _cancel(self, pk: int) -> None:
        self._change("cancelled", cancel_run, pk)

    def _retry(self, pk: int) -> None:
        self._change("retried", retry_run, pk)

    def _change(self, what: str, change: Callable[..., Run], pk: int) -> None:
        note(f"to be {what}", run=pk)
        try:
            self._insist(lambda: change(pk, by="chaos"))
        except StepHooksError as error:
            # Perhaps by this very call, whose success nobody could tell.
            note(f"not {what}", run=pk, error=type(error).__name__)
        else:
            note(what, run=pk)


def _silent(arguments: dict[str, Any]) -> list[str]:
    """The questions of which nobody is to be told."""
    questions = arguments.get("questions") or filter(None, [arguments.get("question")])
    return [question["name"] for question in questions if question["telling"] == "nobody"]
