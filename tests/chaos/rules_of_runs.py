"""What must be true of runs."""

from __future__ import annotations

from collections import Counter, defaultdict

from .evidence import Complaints, Evidence, rule
from .records import Row

FINISHED = ("completed", "failed", "cancelled")


@rule
def every_run_is_there_once(evidence: Evidence) -> Complaints:
    keys = Counter((run["workflow"], run["key"]) for run in evidence.records.runs if run["key"])
    for (workflow, key), times in keys.items():
        if times > 1:
            yield f"{workflow} with the key {key} was started {times} times"
    for line in evidence.lines["run"]:
        run = evidence.runs.get(line["run"])
        if run is None or run["key"] != line["uid"]:
            yield f"run {line['run']} ({line['uid']}) was started and is not there"


@rule
def everything_came_to_rest(evidence: Evidence) -> Complaints:
    """In the time that there is for it once the faults have stopped."""
    if not evidence.lines["drained"]:
        yield "it did not come to rest"


@rule
def every_run_ended_or_waits(evidence: Evidence) -> Complaints:
    for run in evidence.records.runs:
        what = f"run {run['id']} ({run['workflow']})"
        if run["status"] in FINISHED:
            waiting = [hook["call"] for hook in evidence.hooks_of[run["id"]] if hook["status"] == "pending"]
            if waiting:
                yield f"{what} is {run['status']}, and still asks {waiting}"
        elif run["status"] != "suspended":
            yield f"{what} is left {run['status']}"
        else:
            yield from _waits_for_something(evidence, run, what)


def _waits_for_something(evidence: Evidence, run: Row, what: str) -> Complaints:
    suspensions = [event for event in evidence.events_of[run["id"]] if event["type"] == "run_suspended"]
    said = suspensions[-1]["data"].get("waits_for", []) if suspensions else []
    status_of = {hook["call"]: hook["status"] for hook in evidence.hooks_of[run["id"]]}
    if run["due_at"] is not None and run["due_at"] < evidence.end() - evidence.limits.recovery:
        yield f"{what} waits for a timer that was due {evidence.end() - run['due_at']:.1f} s ago"
    if run["due_at"] is None and not said:
        yield f"{what} is suspended and waits for nothing"
    for call in said:
        if status_of.get(call) != "pending":
            yield f"{what} waits for {call!r}, which is {status_of.get(call, 'not there')}"


@rule
def every_run_ended_as_it_should(evidence: Evidence) -> Complaints:
    cancelled = {line["run"] for line in evidence.lines["cancelled"]}
    asked = {line["run"] for line in evidence.lines["to be cancelled"]}
    for line in evidence.lines["run"]:
        run = evidence.runs.get(line["run"])
        if run is None:
            continue
        if run["id"] in cancelled:
            expected = ["cancelled"]
        else:
            expected = line["expected"] + (["cancelled"] if run["id"] in asked else [])
        if run["status"] not in expected:
            why = f": {run['error']}" if run["error"] else ""
            yield f"run {run['id']} ({run['workflow']}) is {run['status']}, not {expected}{why}"


@rule
def a_result_is_what_the_workflow_returned(evidence: Evidence) -> Complaints:
    returned = defaultdict(list)
    for line in evidence.lines["returns"]:
        returned[line["run"]].append(line["value"])
    for run_id, values in returned.items():
        run = evidence.runs.get(run_id)
        if run and run["status"] == "completed" and run["result"] not in values:
            yield f"run {run_id} has the result {run['result']}, but its code returned {values}"


@rule
def what_has_ended_stays_ended(evidence: Evidence) -> Complaints:
    retried = {line["run"] for line in evidence.lines["to be retried"]}
    allowed = {"failed": ("failed", "cancelled"), "completed": ("completed",), "cancelled": ("cancelled",)}
    last: dict[int, Row] = {}
    for state in evidence.records.states:
        if state["kind"] != "run":
            continue
        before = last.get(state["row_id"])
        last[state["row_id"]] = state
        if before is None:
            continue
        if before["status"] == "failed" and state["status"] == "pending" and state["row_id"] in retried:
            continue
        if state["status"] not in allowed.get(before["status"], (state["status"],)):
            yield f"run {state['row_id']} went from {before['status']} to {state['status']}"
        if (state["turn"] or 0) < (before["turn"] or 0):
            yield f"run {state['row_id']} went back from turn {before['turn']} to {state['turn']}"


@rule
def every_end_is_in_the_journal_once(evidence: Evidence) -> Complaints:
    for run in evidence.records.runs:
        types = Counter(event["type"] for event in evidence.events_of[run["id"]])
        if types["run_completed"] > 1 or types["run_cancelled"] > 1:
            yield f"run {run['id']} ended more than once: {dict(types)}"
        if run["status"] in FINISHED and not types[f"run_{run['status']}"]:
            yield f"run {run['id']} is {run['status']}, and its journal does not say so"
