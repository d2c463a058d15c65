"""The checker is only worth something if it complains: each kind of damage, done to a sound case."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from django_stephooks import resume_hook
from django_stephooks.models import Hook, Run
from django_stephooks.services.runs import cancel_run

from . import checker, diary, records
from .evidence import RULES, Evidence, Limits, Outages
from .marks import SECRET, TIMEOUT
from .records import Records, Row

ANSWER = {"approved": True, "comment": "a1"}
HOOK = "10000000-0000-0000-0000-00000000000"


@dataclass
class Case:
    """What the checker is given, still to be damaged."""

    records: Records
    diary: list[Row]
    public: dict[str, bytes] = field(default_factory=lambda: {"worker.log": b"nothing"})
    jobs: list[Row] = field(default_factory=list)

    def complaints(self) -> dict[str, list[str]]:
        evidence = Evidence(
            records=self.records,
            diary=self.diary,
            limits=Limits(skew=0.5),
            public=self.public,
            secrets=[SECRET.encode()],
            failed_jobs=self.jobs,
        )
        return checker.check(evidence)

    def run(self, pk: int) -> Row:
        return next(run for run in self.records.runs if run["id"] == pk)

    def hook(self, pk: int) -> Row:
        return next(hook for hook in self.records.hooks if hook["id"] == pk)

    def event(self, type: str, run: int) -> Row:
        return next(e for e in self.records.events if (e["type"], e["run_id"]) == (type, run))

    def line(self, kind: str, **facts: Any) -> Row:
        return next(line for line in self.diary if line["kind"] == kind and facts.items() <= line.items())

    def add(self, t: float, kind: str, **facts: Any) -> None:
        self.diary.append({"t": t, "pid": 7, "kind": kind, **facts})

    def forget(self, kind: str) -> None:
        self.diary[:] = [line for line in self.diary if line["kind"] != kind]

    def state(self, kind: str, pk: int, status: str, at: float, **columns: Any) -> None:
        empty = dict.fromkeys(("turn", "due_at", "payload", "expires_at", "notified_at"))
        self.records.states.append(
            {**empty, "kind": kind, "row_id": pk, "status": status, "at": at, **columns}
        )


def sound() -> Case:
    """A run that was answered, and others that wait, expired, were cancelled, or napped."""
    runs = [
        _run(1, "completed", result=["v1", ANSWER], finished_at=107.0),
        _run(2, "suspended"),
        _run(3, "completed", result=TIMEOUT, finished_at=111.0),
        _run(4, "cancelled", finished_at=103.0),
        _run(5, "completed", result="v5", finished_at=106.0),
    ]
    hooks = [
        _hook(1, 1, "ask", "received", payload=ANSWER, notified_at=103.2, settled_at=105.0),
        _hook(2, 2, "left", "pending", notified_at=103.2),
        _hook(3, 3, "never", "expired", expires_at=110.0, notified_at=103.2, settled_at=110.8),
    ]
    events = [
        *(_event(run, "run_started", 100.0) for run in range(1, 6)),
        _event(1, "step_completed", 102.0, "draft:1", result="v1"),
        *(
            _event(run, "hook_created", 103.0, f"{name}:1")
            for run, name in ((1, "ask"), (2, "left"), (3, "never"))
        ),
        *(
            _event(run, "run_suspended", 103.5, waits_for=[f"{name}:1"], due_at=None)
            for run, name in ((1, "ask"), (2, "left"), (3, "never"))
        ),
        _event(1, "hook_received", 105.0, "ask:1"),
        _event(1, "run_completed", 107.0),
        _event(3, "hook_expired", 110.8, "never:1"),
        _event(3, "run_completed", 111.0),
        _event(4, "run_cancelled", 103.0),
        _event(5, "timer_started", 102.0, "sleep:1"),
        _event(5, "once_completed", 105.5, "once[card]", result="v5"),
        _event(5, "run_completed", 106.0),
    ]
    case = Case(Records(runs=runs, hooks=hooks, events=events), [])
    for run in runs:
        expected = ["suspended"] if run["id"] == 2 else ["completed"]
        case.add(
            100, "run", uid=run["key"], run=run["id"], workflow=run["workflow"], expected=expected, silent=[]
        )
    case.add(101, "begin", run=1, turn=1, call="draft:1")
    case.add(101.5, "made", run=1, turn=1, call="draft:1", value="v1")
    case.add(101.6, "saved", run=1, turn=1, call="draft:1", value="c1")
    case.add(101.7, "loaded", run=1, turn=1, call="draft:1", value="c1")
    case.add(102.1, "saw", run=1, turn=1, call="", label="draft", value="v1")
    for hook in hooks:
        case.add(103.1, "begin", run=hook["run_id"], turn=1, call="/tell", hook=hook["public_id"])
        case.add(103.15, "told", run=hook["run_id"], turn=1, call="", hook=hook["public_id"])
    case.add(104.9, "offered", uid="a1", hook=1, door="python", payload=ANSWER)
    case.add(105.1, "answered", uid="a1", hook=1, door="python", outcome="won")
    case.add(105.2, "offered", uid="a2", hook=1, door="admin", payload={"comment": "a2"})
    case.add(105.3, "answered", uid="a2", hook=1, door="admin", outcome="lost")
    case.add(105.6, "saw", run=1, turn=2, call="", label="draft", value="v1")
    case.add(105.7, "got", run=1, turn=2, call="", name="ask", value=ANSWER)
    case.add(106, "returns", run=1, turn=2, call="", value=["v1", ANSWER])
    case.add(110.9, "got", run=3, turn=2, call="", name="never", value=TIMEOUT)
    case.add(102, "to be cancelled", run=4)
    case.add(103.1, "cancelled", run=4)
    case.add(105.2, "begin", run=5, turn=2, call="once[card]")
    case.add(105.3, "made", run=5, turn=2, call="", value="v5")
    # Process 77 is stopped for five seconds, and the database is away for two.
    case.add(120, "fault", fault="worker stopped", since=119.9, seconds=5, pids=[77])
    case.add(125, "woken", pids=[77])
    case.add(125, "fault over", fault="worker stopped")
    case.add(130, "fault", fault="postgres restarted", since=129.9, seconds=2)
    case.add(132, "fault over", fault="postgres restarted")
    case.add(150, "drained")
    for run, turn, status, at, due in (
        (1, 0, "pending", 100, 100),
        (1, 1, "running", 101, 104),
        (1, 1, "suspended", 103.5, None),
        (1, 1, "pending", 105, 105),
        (1, 2, "running", 105.5, 108.5),
        (1, 2, "completed", 107, None),
        (5, 1, "suspended", 102, 104),
        (5, 1, "pending", 104.5, 104.5),
    ):
        case.state("run", run, status, at, turn=turn, due_at=due)
    case.state("hook", 1, "pending", 103)
    case.state("hook", 1, "pending", 103.2, notified_at=103.2)
    case.state("hook", 1, "received", 105, notified_at=103.2, payload=json.dumps(ANSWER))
    return case


def _run(pk: int, status: str, **columns: Any) -> Row:
    empty = dict.fromkeys(("due_at", "result", "error", "finished_at"))
    return {
        **empty,
        "id": pk,
        "workflow": "publish",
        "key": f"u{pk}",
        "status": status,
        "turn": 2,
        "recoveries": 0,
        "created_at": 100.0,
        **columns,
    }


def _hook(pk: int, run: int, name: str, status: str, **columns: Any) -> Row:
    empty = dict.fromkeys(("expires_at", "notified_at", "settled_at", "payload"))
    return {
        **empty,
        "id": pk,
        "public_id": f"{HOOK}{pk}",
        "run_id": run,
        "call": f"{name}:1",
        "name": name,
        "status": status,
        "on_timeout": "return",
        "created_at": 103.0,
        "channel": "",
        **columns,
    }


def _event(run: int, type: str, at: float, call: str = "", **data: Any) -> Row:
    return {"run_id": run, "type": type, "call": call, "data": data, "at": at}


def test_a_sound_case_is_sound() -> None:
    assert sound().complaints() == {}


Damage = Callable[[Case], None]
DAMAGES: list[tuple[str, str, Damage]] = []


def damage(rule: str) -> Callable[[Damage], Damage]:
    """Something that this rule must complain about."""

    def add(function: Damage) -> Damage:
        DAMAGES.append((rule, function.__name__, function))
        return function

    return add


@damage("every_run_is_there_once")
def run_was_lost(case: Case) -> None:
    case.records.runs.remove(case.run(2))


@damage("every_run_is_there_once")
def run_was_started_twice_with_one_key(case: Case) -> None:
    case.records.runs.append({**case.run(2), "id": 9})


@damage("everything_came_to_rest")
def there_was_always_more_to_do(case: Case) -> None:
    case.forget("drained")


@damage("every_run_ended_or_waits")
def run_is_forgotten_while_ready(case: Case) -> None:
    case.run(2).update(status="pending", due_at=101.0)


@damage("every_run_ended_or_waits")
def run_is_forgotten_while_running(case: Case) -> None:
    case.run(2).update(status="running", due_at=101.0)


@damage("every_run_ended_or_waits")
def run_waits_for_an_answer_that_is_there(case: Case) -> None:
    case.hook(2).update(status="received")


@damage("every_run_ended_or_waits")
def run_waits_for_a_question_that_was_never_stored(case: Case) -> None:
    case.records.hooks.remove(case.hook(2))


@damage("every_run_ended_or_waits")
def run_waits_for_nothing(case: Case) -> None:
    case.event("run_suspended", 2)["data"]["waits_for"] = []


@damage("every_run_ended_or_waits")
def run_waits_for_a_timer_that_was_due_long_ago(case: Case) -> None:
    case.run(2)["due_at"] = 104.0


@damage("every_run_ended_or_waits")
def ended_run_still_asks(case: Case) -> None:
    case.run(2).update(status="completed")


@damage("every_run_ended_as_it_should")
def run_failed_for_no_reason_of_its_own(case: Case) -> None:
    case.run(1).update(status="failed", error={"type": "RunLostError"})


@damage("every_run_ended_as_it_should")
def cancelled_run_went_on(case: Case) -> None:
    case.run(4).update(status="completed")


@damage("a_result_is_what_the_workflow_returned")
def result_is_of_something_else(case: Case) -> None:
    case.run(1)["result"] = ["v2", ANSWER]


@damage("what_has_ended_stays_ended")
def completed_run_was_revived(case: Case) -> None:
    case.state("run", 1, "pending", 108, turn=2)


@damage("what_has_ended_stays_ended")
def turns_went_backwards(case: Case) -> None:
    case.state("run", 5, "running", 108, turn=0)


@damage("every_end_is_in_the_journal_once")
def end_is_not_in_the_journal(case: Case) -> None:
    case.records.events.remove(case.event("run_completed", 1))


@damage("every_end_is_in_the_journal_once")
def run_completed_twice(case: Case) -> None:
    case.records.events.append(case.event("run_completed", 1))


@damage("no_step_is_recorded_twice")
def step_was_recorded_twice(case: Case) -> None:
    case.records.events.append({**case.event("step_completed", 1), "at": 106.0})


@damage("no_recorded_step_ran_again")
def recorded_step_ran_again(case: Case) -> None:
    case.add(105.6, "begin", run=1, turn=2, call="draft:1")


@damage("no_recorded_step_ran_again")
def recorded_once_was_called_again(case: Case) -> None:
    case.add(105.8, "begin", run=5, turn=2, call="once[card]")


@damage("no_recorded_step_ran_again")
def zombie_went_on_for_a_while(case: Case) -> None:
    case.diary.append({"t": 127, "pid": 77, "kind": "begin", "run": 1, "turn": 1, "call": "draft:1"})


@damage("no_recorded_step_ran_again")
def turn_that_has_the_run_woke_up_and_repeated(case: Case) -> None:
    case.diary.append({"t": 125.01, "pid": 77, "kind": "begin", "run": 1, "turn": 2, "call": "draft:1"})


@damage("a_recorded_result_was_made")
def recorded_result_was_never_made(case: Case) -> None:
    case.line("made", run=1)["value"] = "v9"


@damage("a_result_never_changes")
def result_changed_between_turns(case: Case) -> None:
    case.line("saw", turn=2)["value"] = "v2"


@damage("a_result_never_changes")
def code_saw_a_result_that_is_not_recorded(case: Case) -> None:
    for line in case.diary:
        if line["kind"] == "saw":
            line["value"] = "v2"


@damage("a_checkpoint_is_what_was_saved")
def checkpoint_was_not_found_again(case: Case) -> None:
    case.add(105, "saved", run=1, turn=2, call="draft:1", value="c2")


@damage("a_checkpoint_is_what_was_saved")
def checkpoint_was_another(case: Case) -> None:
    case.line("loaded")["value"] = "c2"


@damage("nothing_is_left_of_finished_steps")
def checkpoint_outlived_its_run(case: Case) -> None:
    case.records.checkpoints.append({"id": 1, "run_id": 1, "call": "draft:1"})


@damage("a_cancelled_run_does_nothing_more")
def cancelled_run_told_people(case: Case) -> None:
    case.add(108, "begin", run=4, turn=3, call="/tell")


@damage("the_first_answer_stands")
def two_won(case: Case) -> None:
    case.line("answered", uid="a2")["outcome"] = "won"


@damage("the_first_answer_stands")
def second_answer_replaced_the_first(case: Case) -> None:
    case.hook(1)["payload"] = {"comment": "a2"}


@damage("the_first_answer_stands")
def answer_that_was_taken_is_gone(case: Case) -> None:
    case.hook(1).update(status="expired", payload=None)


@damage("the_first_answer_stands")
def answer_came_from_nowhere(case: Case) -> None:
    case.hook(2).update(status="received", payload={"comment": "?"})


@damage("the_first_answer_stands")
def somebody_was_told_wrongly_that_it_was_answered(case: Case) -> None:
    case.add(104, "offered", uid="a3", hook=2, door="link", payload={})
    case.add(104, "answered", uid="a3", hook=2, door="link", outcome="lost")


@damage("the_first_answer_stands")
def somebody_was_told_wrongly_that_it_had_expired(case: Case) -> None:
    case.add(105.5, "offered", uid="a3", hook=1, door="link", payload={})
    case.add(105.6, "answered", uid="a3", hook=1, door="link", outcome="expired")


@damage("the_first_answer_stands")
def answer_was_refused(case: Case) -> None:
    case.line("answered", uid="a2")["outcome"] = "refused"


@damage("a_step_gets_the_answer_that_stands")
def step_got_another_answer(case: Case) -> None:
    case.line("got", run=1)["value"] = {"comment": "a2"}


@damage("a_step_gets_the_answer_that_stands")
def step_got_an_answer_after_the_deadline(case: Case) -> None:
    case.line("got", run=3)["value"] = ANSWER


@damage("a_step_gets_the_answer_that_stands")
def step_got_a_timeout_although_answered(case: Case) -> None:
    case.line("got", run=1)["value"] = TIMEOUT


@damage("a_step_gets_the_answer_that_stands")
def step_got_an_answer_to_no_question(case: Case) -> None:
    case.line("got", run=1)["name"] = "nothing"


@damage("a_hook_never_changes_its_mind")
def answered_hook_was_opened_again(case: Case) -> None:
    case.state("hook", 1, "pending", 108, notified_at=103.2)


@damage("a_hook_never_changes_its_mind")
def answer_was_changed(case: Case) -> None:
    case.state("hook", 1, "received", 108, notified_at=103.2, payload="{}")


@damage("a_hook_never_changes_its_mind")
def deadline_was_moved(case: Case) -> None:
    case.state("hook", 2, "pending", 103, expires_at=110.0)
    case.state("hook", 2, "pending", 104, expires_at=111.0)


@damage("a_hook_never_changes_its_mind")
def telling_was_forgotten(case: Case) -> None:
    case.state("hook", 2, "pending", 103, notified_at=103.2)
    case.state("hook", 2, "pending", 104)


@damage("the_journal_tells_each_answer_once")
def answer_is_twice_in_the_journal(case: Case) -> None:
    case.records.events.append(case.event("hook_received", 1))


@damage("the_journal_tells_each_answer_once")
def expiry_is_not_in_the_journal(case: Case) -> None:
    case.records.events.remove(case.event("hook_expired", 3))


@damage("errors_have_a_cause")
def reviewer_saw_an_error_while_redis_was_down(case: Case) -> None:
    case.add(104, "fault", fault="redis restarted", since=104, seconds=5)
    case.line("answered", uid="a2")["outcome"] = "failed"


@damage("errors_have_a_cause")
def load_itself_failed(case: Case) -> None:
    case.add(104, "load failed", action="_cancel", error="KeyError")


@damage("everyone_was_told")
def nobody_was_told(case: Case) -> None:
    case.forget("told")
    case.hook(2)["notified_at"] = None


@damage("everyone_was_told")
def hook_counts_as_told_and_nobody_was(case: Case) -> None:
    case.diary.remove(case.line("told", run=2))


@damage("nobody_is_told_again")
def people_were_told_again(case: Case) -> None:
    case.add(105.6, "begin", run=1, turn=2, call="/tell", hook=f"{HOOK}1")


@damage("telling_that_was_done_is_not_repeated")
def people_were_told_twice_though_nothing_broke(case: Case) -> None:
    case.add(104, "told", run=2, turn=2, call="", hook=f"{HOOK}2")


@damage("no_deadline_is_missed")
def deadline_came_late(case: Case) -> None:
    case.event("hook_expired", 3)["at"] = 145.0


@damage("no_deadline_is_missed")
def deadline_never_came(case: Case) -> None:
    case.hook(2)["expires_at"] = 110.0


@damage("no_deadline_is_missed")
def timer_came_late(case: Case) -> None:
    case.records.states[-4]["at"] = 140.0
    assert case.records.states[-4]["status"] == "pending"


@damage("no_deadline_comes_early")
def deadline_came_early(case: Case) -> None:
    case.event("hook_expired", 3)["at"] = 109.0


@damage("no_deadline_comes_early")
def answer_was_taken_after_the_deadline(case: Case) -> None:
    case.hook(1)["expires_at"] = 103.4


@damage("no_job_failed_that_matters")
def job_failed_with_an_error_of_ours(case: Case) -> None:
    case.jobs.append({"t": 131, "id": "j", "exc_info": "Traceback …\nKeyError: 'turn'"})


@damage("no_job_failed_that_matters")
def database_failed_although_nothing_was_done_to_it(case: Case) -> None:
    case.jobs.append({"t": 104, "id": "j", "exc_info": "django.db.utils.OperationalError: closed"})


@damage("no_secret_is_shown")
def secret_is_in_a_log(case: Case) -> None:
    case.public["worker.log"] = f"an answer: {SECRET}".encode()


@pytest.mark.parametrize(("rule", "damage"), [pytest.param(r, d, id=name) for r, name, d in DAMAGES])
def test_damage_is_noticed(rule: str, damage: Damage) -> None:
    case = copy.deepcopy(sound())
    damage(case)
    assert rule in case.complaints()


def test_every_rule_has_its_damage() -> None:
    assert {rule for rule, _, _ in DAMAGES} == {rule.__name__ for rule in RULES}


# --- what a fault excuses ---


def excused(case: Case) -> bool:
    return case.complaints() == {}


def test_last_breath_of_a_zombie_is_excused() -> None:
    case = sound()
    case.diary.append({"t": 125.01, "pid": 77, "kind": "begin", "run": 1, "turn": 1, "call": "draft:1"})
    assert excused(case)


def test_outage_excuses_a_late_deadline_for_as_long_as_it_lasted() -> None:
    case = sound()
    limits = Limits(skew=0.5)
    on_time = 110.0 + limits.sweep + limits.recovery + limits.skew
    # Meanwhile the worker was stopped for 5.1 s, and the database was away for 2.1 s.
    case.event("hook_expired", 3)["at"] = on_time + 7
    assert excused(case)
    case.event("hook_expired", 3)["at"] = on_time + 8
    assert not excused(case)


def test_error_during_an_outage_of_the_database_is_excused() -> None:
    case = sound()
    case.add(130.5, "offered", uid="a3", hook=1, door="link", payload={})
    case.add(131, "answered", uid="a3", hook=1, door="link", outcome="failed", status=500)
    case.jobs.append({"t": 131, "id": "j", "exc_info": "django.db.utils.OperationalError: closed"})
    assert excused(case)


def test_answer_whose_fate_nobody_knew_may_be_the_first() -> None:
    case = sound()
    case.add(104, "fault", fault="web killed", since=103.9, seconds=0)
    case.line("answered", uid="a1")["outcome"] = "unknown"
    assert excused(case)


def test_page_shown_while_an_answer_was_being_stored_may_say_that_it_is_too_late() -> None:
    case = sound()
    case.add(104.95, "offered", uid="a3", hook=1, door="link", payload={})
    case.add(105.2, "answered", uid="a3", hook=1, door="link", outcome="expired")
    assert excused(case)


def test_question_that_was_answered_at_once_need_not_be_told() -> None:
    case = sound()
    case.diary.remove(case.line("told", run=1))
    case.hook(1)["notified_at"] = None
    assert excused(case)


def test_people_are_told_again_if_the_turn_that_told_them_was_lost() -> None:
    case = sound()
    case.records.events.append(_event(2, "run_recovered", 103.9, turn=1))
    case.add(104, "told", run=2, turn=2, call="", hook=f"{HOOK}2")
    assert excused(case)


def test_overlapping_outages_count_once() -> None:
    lines: list[Row] = []
    for fault, since, until in (("redis paused", 10.0, 14.0), ("postgres restarted", 12.0, 16.0)):
        lines.append({"kind": "fault", "fault": fault, "since": since, "seconds": 4, "t": since})
        lines.append({"kind": "fault over", "fault": fault, "t": until})
    assert Outages(lines).during(0, 100, "redis", "postgres") == 6
    assert Outages(lines).during(13, 15, "redis", "postgres") == 2
    assert Outages(lines).during(0, 100, "postgres") == 4


# --- on real rows ---


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(diary.DIRECTORY, str(tmp_path))
    return tmp_path


def evidence_of(directory: Path) -> Evidence:
    with connection.cursor() as cursor:
        found = records.read(cursor, with_history=False)
    saved = directory / "records.json"
    found.save(saved)
    return Evidence(records=Records.load(saved), diary=diary.read(directory / "diary.jsonl"))


@pytest.mark.django_db(transaction=True)
def test_rows_of_real_runs_are_sound_and_their_damage_is_noticed(directory: Path) -> None:
    from . import workflows

    def begin(definition: Any, expected: str, **arguments: Any) -> Run:
        run = definition.using(key=f"u{Run.objects.count()}").start(**arguments)
        note = {"uid": run.key, "run": run.pk, "workflow": run.workflow, "expected": [expected]}
        diary.note("run", **note)
        return run

    def answer(run: Run, uid: str) -> None:
        hook = run.hooks.get(status=Hook.Status.PENDING)
        diary.note("offered", uid=uid, hook=hook.pk, door="python", payload={"comment": uid})
        resume_hook(hook.token, {"comment": uid})
        diary.note("answered", uid=uid, hook=hook.pk, door="python", outcome="won")

    ask = {"name": "ask", "telling": "people"}
    published = begin(workflows.publish, "completed", uid="u", question=ask, seconds=0)
    begin(workflows.rounds, "suspended", uid="u", questions=[{"name": "left", "telling": "people"}])
    begin(workflows.pay, "completed", uid="u", odds=0)
    stopped = begin(workflows.publish, "cancelled", uid="u", question=ask, seconds=0)
    answer(published, "a1")
    cancel_run(stopped)
    diary.note("drained")

    evidence = evidence_of(directory)
    assert [run["status"] for run in evidence.records.runs] == [
        "completed",
        "suspended",
        "completed",
        "cancelled",
    ]
    assert checker.check(evidence) == {}

    Hook.objects.filter(run=published).update(payload={"comment": "a2"})
    Run.objects.filter(pk=stopped.pk).update(status=Run.Status.COMPLETED)
    assert checker.check(evidence_of(directory)).keys() == {
        "the_first_answer_stands",
        "a_step_gets_the_answer_that_stands",
        "every_run_ended_as_it_should",
        "every_end_is_in_the_journal_once",
        "nothing_is_left_of_finished_steps",
    }
