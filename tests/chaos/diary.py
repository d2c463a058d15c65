"""The diary: one line for everything that happens outside the database, in one file for all processes.

A line is appended by one `write` to a file opened with O_APPEND, so that a process that is killed
leaves a whole line or none, and lines of two processes do not mix. Times are those of the
machine's clock, also in a process whose Django lives in another time.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

DIRECTORY = "CHAOS_DIRECTORY"


class Diary:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, kind: str, **facts: Any) -> None:
        line = json.dumps({"t": time.time(), "kind": kind, "pid": os.getpid(), **facts})
        os.write(self._file, f"{line}\n".encode())


def read(path: Path) -> list[dict[str, Any]]:
    """All lines, in the order in which they were written."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


_diaries: dict[str, Diary] = {}


def diary(name: str = "diary") -> Diary:
    """This directory's diary; "mail" is the one that may hold tokens."""
    directory = os.environ[DIRECTORY]
    key = f"{directory}/{name}.jsonl"
    if key not in _diaries:
        _diaries[key] = Diary(Path(key))
    return _diaries[key]


def note(kind: str, **facts: Any) -> None:
    diary().write(kind, **facts)
