"""What a worker calls in these tests in place of the engine and of the sweep."""

from __future__ import annotations

from collections.abc import Callable

worked: list[str] = []
swept: list[int] = []
during: list[Callable[[str], None]] = []


def reset() -> None:
    for noted in (worked, swept, during):
        noted.clear()


def work(queue: str) -> None:
    worked.append(queue)
    for callback in list(during):
        callback(queue)


def sweep() -> None:
    swept.append(1)
