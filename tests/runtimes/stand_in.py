"""What a worker calls in these tests in place of the engine and of the sweep."""

from __future__ import annotations

from collections.abc import Callable

worked: list[str] = []
swept: list[int] = []
during: list[Callable[[str], None]] = []
# What the database says, look after look: seconds, or an error that it raises.
due: list[float | Exception] = []


def reset() -> None:
    for noted in (worked, swept, during):
        noted.clear()


def work(queue: str) -> None:
    worked.append(queue)
    for callback in list(during):
        callback(queue)


def sweep() -> None:
    swept.append(1)


def seconds_until_due(*, longest: float) -> float:
    seconds = due.pop(0) if due else longest
    if isinstance(seconds, Exception):
        raise seconds
    return min(seconds, longest)
