"""The processes under fire: started, killed, stopped, and started again.

Each has its log. They end with the process that started them, except for the forks of a worker that
was killed, which nobody owns; `clear_away` finds those by the directory in their environment.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from demo_project import embedded_redis
from demo_project.process_tree import children_of

from .diary import note

ROOT = Path(__file__).resolve().parent.parent.parent
QUEUES = ("default", "slow")
# In the environment of each process of the crew and whatever it forks: the directory of the run.
MARK = "CHAOS_CREW"
# So that one that ends at once is not started all the time.
PAUSE = 0.5


@dataclass
class Member:
    """One process. `kind`: forking, simple, tuned, scheduler or web. `skew`: how wrong its clock is."""

    name: str
    kind: str
    command: tuple[str, ...]
    skew: float = 0.0
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    starts: int = 0
    stopped: list[int] = field(default_factory=list)

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process is not None and self.process.poll() is None else None

    def family(self) -> list[int]:
        """The process and what it has forked."""
        return [] if (pid := self.pid) is None else [pid, *children_of(pid)]

    def horses(self) -> list[int]:
        return self.family()[1:]


class Crew:
    """`workers`: "rq" (those of RQ), "tuned" (our own), or "both"."""

    def __init__(self, directory: Path, port: int, *, workers: str, skew: float) -> None:
        self.directory = directory
        self.members = [*WORKERS[workers](skew), *_others(port)]

    def of(self, *kinds: str) -> list[Member]:
        return [member for member in self.members if member.kind in kinds and member.pid]

    def start(self, member: Member) -> None:
        """From the main thread: the kernel ties a child to a thread."""
        member.started, member.starts = time.monotonic(), member.starts + 1
        # The launcher of the embedded Redis: it ties whatever it becomes to its owner.
        tied = [sys.executable, "-I", "-S", embedded_redis.__file__, str(os.getpid())]
        with (self.directory / f"{member.name}.log").open("ab") as log:
            member.process = subprocess.Popen(
                [*tied, sys.executable, *member.command],
                cwd=ROOT,
                env={**os.environ, MARK: str(self.directory), "CHAOS_SKEW": str(member.skew)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Away from the terminal's Ctrl-C, and a group of its own.
                start_new_session=True,
            )
        note("started", name=member.name, process=member.process.pid, skew=member.skew)

    def start_all(self) -> None:
        for member in self.members:
            self.start(member)

    def keep_up(self) -> None:
        """Start again whatever has ended. Called often."""
        for member in self.members:
            if member.pid is None and time.monotonic() - member.started > PAUSE:
                code = member.process.returncode if member.process else None
                note("ended", name=member.name, code=code)
                self.start(member)

    def signal(self, pids: list[int], number: signal.Signals) -> list[int]:
        """Returns those that were there to get it."""
        reached = []
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
                reached.append(pid)
        return reached

    def close(self) -> dict[str, int | None]:
        """Ask all to stop, the gentle way; returns how each ended."""
        for member in self.members:
            self.signal(member.family()[:1], signal.SIGTERM)
        deadline = time.monotonic() + 8
        for member in self.members:
            if member.process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    member.process.wait(max(0.1, deadline - time.monotonic()))
        ended = {member.name: member.process.poll() for member in self.members if member.process}
        self.clear_away()
        return ended

    def clear_away(self) -> None:
        """Kill what is left, orphans too."""
        pids = list(_processes_of(self.directory))
        self.signal(pids, signal.SIGCONT)
        self.signal(pids, signal.SIGKILL)
        for member in self.members:
            if member.process is not None:
                member.process.wait()


def _rq_workers(skew: float) -> Iterator[Member]:
    for name, kind, wrong in (
        ("forking", "forking", 0.0),
        ("forking-behind", "forking", -skew),
        ("simple", "simple", 0.0),
        ("simple-ahead", "simple", skew),
    ):
        worker_class = {"forking": "rq.Worker", "simple": "rq.SimpleWorker"}[kind]
        yield Member(name, kind, ("manage.py", "rqworker", *QUEUES, "--worker-class", worker_class), wrong)


def _tuned_workers(skew: float) -> Iterator[Member]:
    command = ("manage.py", "stephooks_worker", *QUEUES)
    yield Member("tuned", "tuned", command)
    yield Member("tuned-pair", "tuned", (*command, "--processes", "2", "--max-turns", "200"))
    yield Member("tuned-behind", "tuned", command, -skew)
    yield Member("tuned-ahead", "tuned", command, skew)


def _all_workers(skew: float) -> Iterator[Member]:
    yield from _rq_workers(skew)
    yield next(_tuned_workers(skew))


WORKERS: dict[str, Callable[[float], Iterator[Member]]] = {
    "both": _all_workers,
    "rq": _rq_workers,
    "tuned": _tuned_workers,
}


def _others(port: int) -> Iterator[Member]:
    for number in (1, 2):
        yield Member(f"scheduler-{number}", "scheduler", ("manage.py", "stephooks_scheduler"))
    yield Member("web", "web", ("-m", "tests.chaos.web", str(port)))


def _processes_of(directory: Path) -> Iterator[int]:
    mark = f"{MARK}={directory}".encode()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in environ.read_bytes().split(b"\0"):
                yield int(environ.parent.name)
