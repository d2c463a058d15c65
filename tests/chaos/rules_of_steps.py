"""What must be true of steps, `once` and checkpoints: recorded is recorded."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from .evidence import Complaints, Evidence, rule
from .records import Row


def _recorded(evidence: Evidence) -> dict[tuple[int, str], Row]:
    return {
        (event["run_id"], event["call"]): event
        for event in evidence.records.events
        if event["type"] in ("step_completed", "once_completed")
    }


@rule
def no_step_is_recorded_twice(evidence: Evidence) -> Complaints:
    times = Counter(
        (event["run_id"], event["type"], event["call"])
        for event in evidence.records.events
        if event["type"]
        in ("step_completed", "once_completed", "step_failed", "hook_created", "timer_started")
    )
    retried = {event["run_id"] for event in evidence.records.events if event["type"] == "run_retried"}
    for (run_id, type_, call), count in times.items():
        if count > 1 and not (type_ == "step_failed" and run_id in retried):
            yield f"{call!r} of run {run_id} has {count} events {type_}"


@rule
def no_recorded_step_ran_again(evidence: Evidence) -> Complaints:
    for line in ran_after_recording(evidence):
        if not last_breath(evidence, line):
            yield f"{line['call']!r} of run {line['run']} began again in turn {line['turn']}, though recorded"


def ran_after_recording(evidence: Evidence) -> list[Row]:
    recorded = _recorded(evidence)
    return [
        line
        for line in evidence.lines["begin"]
        if (event := recorded.get((line["run"], line["call"]))) and line["t"] > event["at"]
    ]


def last_breath(evidence: Evidence, line: Row) -> bool:
    """Stopped between its last look at the fence and the body: nobody can keep that one from beginning."""
    later = any(state["turn"] > line["turn"] for state in _states_of_run(evidence, line["run"]))
    return later and evidence.outages.just_woken(line["pid"], line["t"], evidence.limits.last_breath)


def _states_of_run(evidence: Evidence, run_id: int) -> list[Row]:
    return [
        state for state in evidence.records.states if state["kind"] == "run" and state["row_id"] == run_id
    ]


@rule
def a_recorded_result_was_made(evidence: Evidence) -> Complaints:
    made = defaultdict(list)
    for line in evidence.lines["made"]:
        made[line["run"]].append(line["value"])
    for (run_id, call), event in _recorded(evidence).items():
        if run_id not in made:
            continue
        result = event["data"].get("result")
        value = result["made"] if isinstance(result, dict) and "made" in result else result
        if value not in made[run_id]:
            yield f"{call!r} of run {run_id} recorded {value!r}, which no execution made"


@rule
def a_result_never_changes(evidence: Evidence) -> Complaints:
    results = defaultdict(list)
    for event in _recorded(evidence).values():
        results[event["run_id"]].append(event["data"].get("result"))
    first: dict[tuple[int, str], Any] = {}
    for line in evidence.lines["saw"]:
        key = (line["run"], line["label"])
        if first.setdefault(key, line["value"]) != line["value"]:
            yield f"{line['label']!r} of run {line['run']} was {first[key]!r}, and later {line['value']!r}"
        if line["run"] in evidence.runs and line["value"] not in results[line["run"]]:
            yield f"{line['label']!r} of run {line['run']} was {line['value']!r}, which is not recorded"


@rule
def a_checkpoint_is_what_was_saved(evidence: Evidence) -> Complaints:
    saved: dict[tuple[int, str], Row] = {}
    for line in evidence.lines["saved"]:
        if (key := (line["run"], line["call"])) in saved:
            yield f"{line['call']!r} of run {line['run']} saved twice: it did not find what it had saved"
        saved.setdefault(key, line)
    for line in evidence.lines["loaded"]:
        known = saved.get((line["run"], line["call"]))
        # A process that is killed between storing and noting leaves no line.
        if known is not None and known["value"] != line["value"]:
            yield f"{line['call']!r} of run {line['run']} saved {known['value']}, loaded {line['value']}"


@rule
def nothing_is_left_of_finished_steps(evidence: Evidence) -> Complaints:
    for row in evidence.records.checkpoints:
        run = evidence.runs.get(row["run_id"])
        if run is None or run["status"] == "completed":
            yield f"the checkpoint of {row['call']!r} of run {row['run_id']} outlived it"


@rule
def a_cancelled_run_does_nothing_more(evidence: Evidence) -> Complaints:
    cancelled = {
        event["run_id"]: event["at"] for event in evidence.records.events if event["type"] == "run_cancelled"
    }
    for line in evidence.lines["begin"]:
        late = line["t"] - cancelled.get(line["run"], line["t"])
        woken = evidence.outages.just_woken(line["pid"], line["t"], evidence.limits.last_breath)
        if late > evidence.limits.notice and not woken:
            yield f"{line['call']!r} of run {line['run']} began {late:.1f} s after it was cancelled"
