"""The plan of a storm: what happens, when, and for how long; the seed's alone."""

from __future__ import annotations

import random
from dataclasses import dataclass

# On average so many seconds from one fault to the next.
PACE = 1.2


@dataclass(frozen=True, kw_only=True)
class Fault:
    """`at`: seconds from the beginning. `chance`: a number below 1 that picks the victim."""

    kind: str
    at: float
    seconds: float
    chance: float


# How often each comes up in a round, and how long it lasts.
KINDS: dict[str, tuple[int, tuple[float, float]]] = {
    "worker killed": (2, (0, 0)),
    "worker parent killed": (1, (0, 0)),
    "horse killed": (2, (0, 0)),
    "worker stopped": (3, (1.5, 6)),
    "horse stopped": (1, (1.5, 6)),
    "worker terminated": (1, (0, 0)),
    "scheduler killed": (1, (0, 0)),
    "scheduler stopped": (1, (2, 12)),
    "web killed": (1, (0, 0)),
    "redis restarted": (1, (0, 2)),
    "redis flushed": (1, (0, 0)),
    "redis paused": (1, (0.5, 2.5)),
    "redis stopped": (1, (1, 4)),
    "postgres restarted": (1, (0, 1)),
    "backends terminated": (2, (0, 0)),
    "bells doubled": (1, (0, 0)),
    "bell lost": (1, (0, 0)),
    "sweeps doubled": (1, (0, 0)),
}


def plan(seed: int, seconds: float) -> list[Fault]:
    """Round after round of all kinds, shuffled; a pause between two. In the end a bell is lost."""
    chance = random.Random(seed)
    found, at = [], chance.uniform(0.2, 1.0)
    while True:
        round_ = [kind for kind, (times, _) in KINDS.items() for _ in range(times)]
        chance.shuffle(round_)
        for kind in round_:
            if at >= seconds:
                # With nothing behind it that would ring: only the sweep is left to notice.
                return [*found, Fault(kind="bell lost", at=seconds - 0.1, seconds=0, chance=0)]
            shortest, longest = KINDS[kind][1]
            found.append(
                Fault(kind=kind, at=at, seconds=chance.uniform(shortest, longest), chance=chance.random())
            )
            at += chance.uniform(0.25 * PACE, 1.75 * PACE)
