"""What a job calls that was written to Redis by somebody who knows no more than its address."""

from __future__ import annotations

called: list[str] = []


def call(what: str) -> None:
    called.append(what)


class Unpickled:
    """Calls by being read, whoever reads it."""

    def __reduce__(self) -> object:
        return call, ("unpickled",)
