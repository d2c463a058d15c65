"""Runtimes without workers: the tests make the turns themselves, and look into the streams."""

from __future__ import annotations

from django_stephooks.runtimes.base import Runtime
from django_stephooks.runtimes.rq import RQRuntime


class Silent(Runtime):
    """Streams are in the database."""

    def ring(self, queue: str) -> None:
        pass


class SilentWithRedis(RQRuntime):
    """Streams are in Redis."""

    def ring(self, queue: str) -> None:
        pass

    def ring_again(self, queue: str) -> None:
        pass

    def picked_up(self, queue: str) -> None:
        pass
