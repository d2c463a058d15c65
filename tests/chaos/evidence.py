"""What the checker goes by: the database's rows, the diary, and what was down when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .records import Records, Row


@dataclass(frozen=True, kw_only=True)
class Limits:
    """In seconds. `recovery` is how long everything may take to find back after an outage.

    It is the scheduler's lock (10 s: it outlives a scheduler that is killed or stopped while it
    holds it), a second sweep, and the time that a process takes to start on a loaded machine.
    """

    lease: float = 3.0
    sweep: float = 1.0
    recovery: float = 20.0
    skew: float = 0.0
    # Between looking at the fence and the first line of a body, a process may be stopped; whoever
    # is woken then begins this soon.
    last_breath: float = 0.5
    # A turn notices that its run was cancelled when it next writes.
    notice: float = 1.0


@dataclass
class Evidence:
    records: Records
    diary: list[Row]
    limits: Limits = field(default_factory=Limits)
    # Text that must hold none of `secrets`: {name: text}.
    public: dict[str, bytes] = field(default_factory=dict)
    secrets: list[bytes] = field(default_factory=list)
    # Jobs that RQ counts as failed: {"id": …, "exc_info": …}.
    failed_jobs: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.runs = {row["id"]: row for row in self.records.runs}
        self.hooks = {row["id"]: row for row in self.records.hooks}
        self.events_of: dict[int, list[Row]] = defaultdict(list)
        for event in self.records.events:
            self.events_of[event["run_id"]].append(event)
        self.hooks_of: dict[int, list[Row]] = defaultdict(list)
        for hook in self.records.hooks:
            self.hooks_of[hook["run_id"]].append(hook)
        self.lines: dict[str, list[Row]] = defaultdict(list)
        for line in self.diary:
            self.lines[line["kind"]].append(line)
        self.outages = Outages(self.diary)

    def end(self) -> float:
        """When the last thing happened."""
        return max((line["t"] for line in self.diary), default=0.0)


class Outages:
    """When what was down, or stopped, by the diary of faults."""

    def __init__(self, lines: list[Row]) -> None:
        self.times: list[tuple[str, float, float]] = []
        self.stops: dict[int, list[tuple[float, float]]] = defaultdict(list)
        running: list[Row] = []
        stopped: dict[int, float] = {}
        for line in lines:
            if line["kind"] == "fault":
                if line["seconds"]:
                    running.append(line)
                self.times.append((line["fault"], line["since"], line["t"]))
                if line["fault"].endswith("stopped"):
                    stopped |= dict.fromkeys(line.get("pids", ()), line["since"])
            elif line["kind"] == "fault over":
                for fault in [fault for fault in running if fault["fault"] == line["fault"]][:1]:
                    running.remove(fault)
                    self.times.append((fault["fault"], fault["since"], line["t"]))
            elif line["kind"] == "woken":
                for pid in line["pids"]:
                    if pid in stopped:
                        self.stops[pid].append((stopped.pop(pid), line["t"]))

    def during(self, began: float, ended: float, *prefixes: str) -> float:
        """For how many seconds of this time something was down; and a moment for each fault."""
        spans = sorted(
            (max(began, since), min(ended, until))
            for fault, since, until in self.times
            if fault.startswith(prefixes) and since <= ended and until >= began
        )
        total, reached = 0.0, began
        for since, until in spans:
            total += max(0.0, until - max(since, reached))
            reached = max(reached, until)
        return total

    def any(self, moment: float, within: float, *prefixes: str) -> bool:
        """Whether such a fault was on, or had been over for less than so many seconds."""
        return any(
            fault.startswith(prefixes) and since - 0.1 <= moment <= until + within
            for fault, since, until in self.times
        )

    def just_woken(self, pid: int, moment: float, within: float) -> bool:
        return any(since <= moment <= until + within for since, until in self.stops.get(pid, ()))


Complaints = Iterator[str]
RULES: list[Callable[[Evidence], Complaints]] = []


def rule(check: Callable[[Evidence], Complaints]) -> Callable[[Evidence], Complaints]:
    """Mark one thing to check; it yields a sentence for each violation."""
    RULES.append(check)
    return check
