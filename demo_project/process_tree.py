"""Which processes a process has started; asked by the check, which kills a worker and its forks."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


def children_of(parent: int) -> list[int]:
    """The process ids of a process's children."""
    return [pid for pid, its_parent in _processes() if its_parent == parent]


def _processes() -> Iterator[tuple[int, int]]:
    if not sys.platform.startswith("linux"):
        listed = subprocess.check_output(["ps", "-A", "-o", "pid=,ppid="], text=True)
        for line in listed.splitlines():
            pid, parent = line.split()
            yield int(pid), int(parent)
        return
    # A small image has no ps.
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The second field is the program's name in brackets, which may hold anything.
            pid, _, rest = stat.read_text(errors="replace").partition(" ")
            yield int(pid), int(rest.rpartition(")")[2].split()[1])
