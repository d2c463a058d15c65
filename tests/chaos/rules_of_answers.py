"""What must be true of answers: the first one stands, and it is the one that the step gets."""

from __future__ import annotations

from collections import Counter, defaultdict

from .evidence import Complaints, Evidence, rule
from .marks import TIMEOUT
from .records import Row


@rule
def the_first_answer_stands(evidence: Evidence) -> Complaints:
    offered = {line["uid"]: line for line in evidence.lines["offered"]}
    answered: dict[int, list[Row]] = defaultdict(list)
    for line in evidence.lines["answered"]:
        answered[line["hook"]].append(line)
    for line in evidence.lines["offered"]:
        if not any(reply["uid"] == line["uid"] for reply in answered[line["hook"]]):
            answered[line["hook"]].append({**line, "outcome": "unknown"})
    received = {
        (event["run_id"], event["call"]): event["at"]
        for event in evidence.records.events
        if event["type"] == "hook_received"
    }
    for hook in evidence.records.hooks:
        settled = received.get((hook["run_id"], hook["call"]))
        yield from _one_winner(hook, answered[hook["id"]], offered, settled)


def _one_winner(hook: Row, replies: list[Row], offered: dict[str, Row], settled: float | None) -> Complaints:
    what = f"hook {hook['id']} of run {hook['run_id']}"
    won = [reply["uid"] for reply in replies if reply["outcome"] == "won"]
    perhaps = won or [r["uid"] for r in replies if r["outcome"] in ("unknown", "failed")]
    told = {reply["outcome"] for reply in replies}
    if len(won) > 1:
        yield f"{what} was won {len(won)} times: {won}"
    if won and hook["status"] != "received":
        yield f"{what} is {hook['status']}, though the answer {won[0]} was taken"
    if hook["status"] == "received" and hook["payload"] not in [offered[uid]["payload"] for uid in perhaps]:
        yield f"{what} stores {hook['payload']}, which is not the answer that was given first ({perhaps})"
    if "lost" in told and hook["status"] != "received":
        yield f"{what} is {hook['status']}, though somebody was told that it was answered"
    # A page that is shown while an answer of the last moment is being stored may know no better.
    if hook["status"] != "expired" and any(
        reply["outcome"] == "expired" and (settled is None or offered[reply["uid"]]["t"] > settled)
        for reply in replies
    ):
        yield f"{what} is {hook['status']}, though somebody was told that it had expired"
    for refused in [reply for reply in replies if reply["outcome"] == "refused"]:
        yield f"{what} refused an answer for no good reason: {refused}"


@rule
def a_step_gets_the_answer_that_stands(evidence: Evidence) -> Complaints:
    by_name = {(hook["run_id"], hook["name"]): hook for hook in evidence.records.hooks}
    for line in evidence.lines["got"]:
        hook = by_name.get((line["run"], line["name"]))
        if hook is None:
            yield f"run {line['run']} got an answer to {line['name']!r}, which is not there"
        elif hook["status"] == "expired":
            if line["value"] != TIMEOUT:
                yield f"run {line['run']} got {line['value']} from {line['name']!r}, which expired"
        elif hook["status"] != "received" or line["value"] != hook["payload"]:
            yield (
                f"run {line['run']} got {line['value']} from {line['name']!r}, "
                f"which is {hook['status']} with {hook['payload']}"
            )


@rule
def a_hook_never_changes_its_mind(evidence: Evidence) -> Complaints:
    retried = {event["run_id"] for event in evidence.records.events if event["type"] == "run_retried"}
    last: dict[int, Row] = {}
    for state in evidence.records.states:
        if state["kind"] != "hook":
            continue
        before = last.get(state["row_id"])
        last[state["row_id"]] = state
        if before is None:
            continue
        what = f"hook {state['row_id']}"
        reopened = (before["status"], state["status"]) == ("cancelled", "pending")
        run_id = evidence.hooks[state["row_id"]]["run_id"] if state["row_id"] in evidence.hooks else None
        if before["status"] not in ("pending", state["status"]) and not (reopened and run_id in retried):
            yield f"{what} went from {before['status']} to {state['status']}"
        if before["status"] == state["status"] == "received" and before["payload"] != state["payload"]:
            yield f"the answer of {what} was changed"
        if before["expires_at"] != state["expires_at"]:
            yield f"the deadline of {what} was moved"
        if before["notified_at"] and not state["notified_at"]:
            yield f"{what} forgot that people were told"


@rule
def the_journal_tells_each_answer_once(evidence: Evidence) -> Complaints:
    types = Counter((event["run_id"], event["call"], event["type"]) for event in evidence.records.events)
    for hook in evidence.records.hooks:
        for status in ("received", "expired"):
            times = types[hook["run_id"], hook["call"], f"hook_{status}"]
            if times != (hook["status"] == status):
                yield f"hook {hook['id']} is {hook['status']}, with {times} events hook_{status}"


@rule
def errors_have_a_cause(evidence: Evidence) -> Complaints:
    """A reviewer sees an error only when the database, or the web server itself, was hit."""
    for line in evidence.lines["answered"]:
        causes = {"failed": ("postgres", "backends"), "unknown": ("postgres", "backends", "web")}
        if line["outcome"] not in causes:
            continue
        began = next(o["t"] for o in evidence.lines["offered"] if o["uid"] == line["uid"])
        prefixes = causes[line["outcome"]]
        if not any(
            evidence.outages.any(moment, evidence.limits.recovery / 2, *prefixes)
            for moment in (began, (began + line["t"]) / 2, line["t"])
        ):
            yield f"{line['door']}: the answer {line['uid']} {line['outcome']} for no known reason ({line})"
    for line in evidence.lines["load failed"]:
        yield f"{line['action']}: {line['error']}"
