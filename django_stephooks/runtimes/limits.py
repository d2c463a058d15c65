"""What a worker process may use up before another one takes its place."""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass
from pathlib import Path

STATM = Path("/proc/self/statm")


@dataclass(kw_only=True)
class Limits:
    """How many turns it may make, and how much memory (in bytes) it may hold; None for any."""

    max_turns: int | None = None
    max_memory: int | None = None
    turns: int = 0

    def __bool__(self) -> bool:
        return self.max_turns is not None or self.max_memory is not None

    def count_turn(self) -> None:
        self.turns += 1

    def reached(self) -> str:
        """Which limit was reached, in words; "" if none was."""
        if self.max_turns is not None and self.turns >= self.max_turns:
            return f"made {self.turns} turns"
        if self.max_memory is not None and (used := memory()) >= self.max_memory:
            return f"holds {used >> 20} MiB of memory"
        return ""


def memory() -> int:
    """The bytes of memory that this process holds now; where that can not be told, the most it ever held."""
    try:
        return int(STATM.read_text().split()[1]) * resource.getpagesize()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
