"""A runtime that only notes its bells: what a site is like while no worker is there."""

from __future__ import annotations

from django_stephooks.runtimes.base import Runtime

rung: list[str] = []
rung_again: list[str] = []


class NotedBells(Runtime):
    def ring(self, queue: str) -> None:
        rung.append(queue)

    def ring_again(self, queue: str) -> None:
        rung_again.append(queue)
