"""A crew of threads that begin together, each with a database connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from django.db import connections

# Nothing here takes long; whoever hangs is a failure and not a wait.
PATIENCE = 60


class Crew:
    """`crew.together(f, g, …)` calls each function in a thread of its own, all at the same moment.

    The threads live as long as the crew, so that rounds after the first find open connections.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="crew")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            # A barrier makes each thread take exactly one of these.
            self.together(*[connections.close_all] * self.size)
        finally:
            self._threads.shutdown()

    def together(self, *functions: Callable[[], Any]) -> list[Any]:
        """What each returned, or the exception it raised, in the order of the functions."""
        barrier = threading.Barrier(len(functions), timeout=PATIENCE)

        def begin(function: Callable[[], Any]) -> Any:
            barrier.wait()
            try:
                return function()
            except Exception as error:  # noqa: BLE001  (the test looks at what came)
                return error

        begun = [self._threads.submit(begin, function) for function in functions]
        return [thread.result(PATIENCE) for thread in begun]

    def begin(self, function: Callable[[], Any]) -> Any:
        """Call one function beside this thread; its future."""
        return self._threads.submit(function)


def errors(outcomes: list[Any]) -> list[Exception]:
    return [outcome for outcome in outcomes if isinstance(outcome, Exception)]
