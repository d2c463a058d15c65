"""A runtime that rings no bell: runs become ready and nobody is told, until somebody rings."""

from __future__ import annotations

from django_stephooks.runtimes.base import Runtime


class Silent(Runtime):
    def ring(self, queue: str) -> None:
        pass
