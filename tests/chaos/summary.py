"""What a run of chaos leaves in its directory, gathered for the checker, and shown as a table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from . import diary
from .evidence import Evidence, Limits
from .marks import SECRET
from .records import Records
from .rules_of_steps import ran_after_recording
from .rules_of_time import lateness

# Of each rule, so many complaints are shown.
SHOWN = 5
LONGEST = 600


def gather(directory: Path) -> Evidence:
    """Everything that the rules look at, from the files of one run."""
    mail = diary.read(directory / "mail.jsonl")
    known = json.loads((directory / "facts.json").read_text())
    public = {path.name: path.read_bytes() for path in sorted(directory.glob("*.log"))}
    # PostgreSQL's own log quotes the statements that it breaks off.
    public.pop("postgres.log", None)
    public["what was in Redis"] = (directory / "redis.dump").read_bytes()
    return Evidence(
        records=Records.load(directory / "records.json"),
        diary=diary.read(directory / "diary.jsonl"),
        limits=Limits(**known["limits"]),
        public=public,
        secrets=[SECRET.encode(), *(line["token"].encode() for line in mail)],
        failed_jobs=diary.read(directory / "failed-jobs.jsonl"),
    )


def keep_facts(directory: Path, limits: Limits) -> None:
    (directory / "facts.json").write_text(json.dumps({"limits": asdict(limits)}))


def show(evidence: Evidence, complaints: dict[str, list[str]]) -> None:
    for title, rows in _tables(evidence):
        print(f"\n{title}")
        for name, value in rows:
            print(f"    {name:32} {value}")
    for name, found in complaints.items():
        print(f"\nVIOLATED {name}: {len(found)}")
        for complaint in found[:SHOWN]:
            print(f"    {complaint[:LONGEST]}")
    total = sum(map(len, complaints.values()))
    print(f"\n{'no violation' if not total else f'{total} violations'}")


def _tables(evidence: Evidence) -> Iterator[tuple[str, list[tuple[str, object]]]]:
    lines = evidence.lines
    yield "Faults", sorted(Counter(line["fault"] for line in lines["fault"]).items())
    yield "Runs", sorted(Counter(f"{run['status']}" for run in evidence.records.runs).items())
    yield "Hooks", sorted(Counter(hook["status"] for hook in evidence.records.hooks).items())
    yield (
        "Answers",
        sorted(Counter(f"{line['door']}: {line['outcome']}" for line in lines["answered"]).items()),
    )
    yield "All in all", list(_totals(evidence))


def _totals(evidence: Evidence) -> Iterator[tuple[str, object]]:
    lines, events = evidence.lines, Counter(event["type"] for event in evidence.records.events)
    began, calm, at_rest = (
        next((line["t"] for line in lines[kind]), evidence.end()) for kind in ("began", "calm", "drained")
    )
    seconds = at_rest - began
    ended = sum(run["finished_at"] is not None for run in evidence.records.runs)
    turns = sum(run["turn"] for run in evidence.records.runs)
    bodies = Counter((line["run"], line["call"]) for line in lines["begin"])
    late = sorted(seconds for seconds, *_ in lateness(evidence))
    yield "seconds with faults, and to rest", f"{calm - began:.0f}, {at_rest - calm:.1f}"
    yield "runs ended each second", f"{ended / seconds:.1f}"
    yield "turns each second", f"{turns / seconds:.1f}"
    yield "recoveries", events["run_recovered"]
    yield "bodies begun", bodies.total()
    yield "of them more than once", sum(times > 1 for times in bodies.values())
    yield "of them after being recorded", len(ran_after_recording(evidence))
    yield "told", len(lines["told"])
    if late:
        yield "deadlines and timers", len(late)
        yield "late by, median", f"{late[len(late) // 2]:.2f} s"
        yield "late by, 95 %", f"{late[int(len(late) * 0.95)]:.2f} s"
        yield "late by, at most", f"{late[-1]:.2f} s"
