"""A runtime that only counts its bells: the tests call the workers themselves."""

from __future__ import annotations

from django_stephooks.runtimes.base import Runtime

rung: list[str] = []
rung_again: list[str] = []


class CountedBells(Runtime):
    """Wakes nobody."""

    def ring(self, queue: str) -> None:
        rung.append(queue)

    def ring_again(self, queue: str) -> None:
        rung_again.append(queue)
