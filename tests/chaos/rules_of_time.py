"""What must be true of telling people, of deadlines, and of what is shown to everybody."""

from __future__ import annotations

from collections import Counter

from .evidence import Complaints, Evidence, rule
from .records import Row
from .rules_of_steps import last_breath


@rule
def everyone_was_told(evidence: Evidence) -> Complaints:
    """Of each question that stood for longer than it takes to recover, if its run meant to tell."""
    told = Counter(line["hook"] for line in evidence.lines["told"])
    untold = [hook for hook in evidence.records.hooks if not told[hook["public_id"]]]
    silent = {(line["run"], name) for line in evidence.lines["run"] for name in line.get("silent", ())}
    for hook in untold:
        if (hook["run_id"], hook["name"]) in silent:
            continue
        until = hook["settled_at"] or evidence.end()
        if hook["notified_at"] is not None:
            yield f"hook {hook['id']} of run {hook['run_id']} counts as told, and nobody was"
        elif until - hook["created_at"] > evidence.limits.recovery + 2 * evidence.limits.lease:
            yield f"nobody was told of hook {hook['id']} of run {hook['run_id']} ({hook['name']})"


@rule
def nobody_is_told_again(evidence: Evidence) -> Complaints:
    noted: dict[int, float] = {}
    for state in evidence.records.states:
        if state["kind"] == "hook" and state["notified_at"] is not None:
            noted.setdefault(state["row_id"], state["at"])
    ids = {hook["public_id"]: hook["id"] for hook in evidence.records.hooks}
    for line in evidence.lines["begin"]:
        pk = ids.get(line.get("hook", ""))
        again = pk in noted and line["t"] > noted[pk]
        if again and not last_breath(evidence, line):
            yield f"hook {pk} of run {line['run']} was told again, in turn {line['turn']}"


@rule
def telling_that_was_done_is_not_repeated(evidence: Evidence) -> Complaints:
    """Unless the turn that told people was lost before it could note that."""
    lost = {
        (event["run_id"], event["data"]["turn"])
        for event in evidence.records.events
        if event["type"] == "run_recovered"
    }
    last: dict[str, Row] = {}
    for line in evidence.lines["told"]:
        before = last.get(line["hook"])
        last[line["hook"]] = line
        if before is None or (before["run"], before["turn"]) in lost:
            continue
        # Whoever is told to stop hands its turn back, and notes nothing.
        if not evidence.outages.any(before["t"], evidence.limits.recovery, "worker terminated"):
            yield f"run {line['run']} told people of hook {line['hook']} in turn {before['turn']}, and again"


def lateness(evidence: Evidence) -> list[tuple[float, str, float, float]]:
    """How late each deadline and timer was acted on: (seconds, what, due, done)."""
    expired = {
        (event["run_id"], event["call"]): event["at"]
        for event in evidence.records.events
        if event["type"] == "hook_expired"
    }
    found = []
    for hook in evidence.records.hooks:
        at = expired.get((hook["run_id"], hook["call"]))
        if at is not None and hook["expires_at"] is not None:
            what = f"the deadline of hook {hook['id']} of run {hook['run_id']}"
            found.append((at - hook["expires_at"], what, hook["expires_at"], at))
    before: dict[int, Row] = {}
    for state in evidence.records.states:
        if state["kind"] != "run":
            continue
        last = before.get(state["row_id"])
        before[state["row_id"]] = state
        waited = last is not None and last["status"] == "suspended" and last["due_at"] is not None
        if last is not None and waited and state["status"] == "pending" and state["at"] >= last["due_at"]:
            what = f"a timer of run {state['row_id']}"
            found.append((state["at"] - last["due_at"], what, last["due_at"], state["at"]))
    return found


@rule
def no_deadline_is_missed(evidence: Evidence) -> Complaints:
    limits = evidence.limits
    for seconds, what, due, done in lateness(evidence):
        down = evidence.outages.during(due, done, "postgres", "redis", "scheduler stopped", "worker stopped")
        if seconds > limits.sweep + limits.recovery + down + limits.skew:
            yield f"{what} was acted on {seconds:.1f} s late, of which {down:.1f} s were outages"
    for hook in evidence.records.hooks:
        if hook["expires_at"] is None or hook["on_timeout"] == "suspend":
            continue
        if hook["status"] == "pending" and evidence.end() > hook["expires_at"] + limits.recovery:
            yield f"the deadline of hook {hook['id']} passed, and it is pending"


@rule
def no_deadline_comes_early(evidence: Evidence) -> Complaints:
    received = {
        (event["run_id"], event["call"]): event["at"]
        for event in evidence.records.events
        if event["type"] == "hook_received"
    }
    for seconds, what, _, _ in lateness(evidence):
        if seconds < -evidence.limits.skew - 0.05:
            yield f"{what} was acted on {-seconds:.2f} s early"
    for hook in evidence.records.hooks:
        at = received.get((hook["run_id"], hook["call"]))
        if at is None or hook["expires_at"] is None or hook["on_timeout"] == "suspend":
            continue
        # It is taken before the deadline, and committed a moment later.
        late = at - hook["expires_at"] - evidence.limits.skew
        if late > 1 + evidence.outages.during(hook["expires_at"], at, "postgres", "worker", "web"):
            yield f"hook {hook['id']} was answered {late:.1f} s after its deadline"


@rule
def no_job_failed_that_matters(evidence: Evidence) -> Complaints:
    """A bell that was cut short says nothing about its runs; what else could be wrong is not expected."""
    excused = (
        ("Work-horse terminated unexpectedly", ("worker", "horse")),
        ("AbandonedJobError", ("worker", "horse")),
        ("OperationalError", ("postgres", "backends")),
        # RQ's own, when it wants to note that a job is done.
        ("redis.exceptions", ("redis",)),
        ("InvalidJobOperation", ("redis",)),
    )
    for job in evidence.failed_jobs:
        said = job["exc_info"].strip()
        if not any(
            words in said and evidence.outages.any(job["t"], evidence.limits.recovery, *faults)
            for words, faults in excused
        ):
            yield f"job {job['id']} failed: {said[-500:]}"


@rule
def no_secret_is_shown(evidence: Evidence) -> Complaints:
    for name, text in evidence.public.items():
        shown = [secret for secret in evidence.secrets if secret in text]
        if shown:
            at = text.index(shown[0])
            around = text[max(0, at - 150) : at + 100].decode(errors="replace")
            yield f"{name} holds {len(shown)} secrets, such as in {around!r}"
