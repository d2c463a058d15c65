"""One implementation for `def` and `async def`: durable calls are generators, and these two drive them.

A durable call (a step, a hook, `once`) does its reading and writing itself and *yields* an `Invoke`
for each function of the project that it wants called; what that returned, or raised, is sent back
in. `drive` calls them; `adrive` awaits them, and runs the generator's own stretches, which use the
database, in Django's thread for synchronous code.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from asgiref.sync import async_to_sync, iscoroutinefunction, sync_to_async
from django.core.exceptions import SynchronousOnlyOperation

from django_stephooks.exceptions import StepTimeoutError

from .frames import Frame, entered
from .limits import time_limit
from .tasks import notice_foreign_loop, within

T = TypeVar("T")


@dataclass(slots=True)
class Invoke:
    """A function of the project to call within a frame, with a time limit if it has one."""

    function: Callable[..., Any]
    frame: Frame | None = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    timeout: timedelta | None = None
    what: str = ""
    time_is_up: Callable[[], Exception] | None = None
    # Entered right where the function is called: in its thread, or in its task.
    around: AbstractContextManager[Any] = nullcontext()  # noqa: RUF009  (it has no state)

    def error(self) -> Exception:
        if self.time_is_up is not None:
            return self.time_is_up()
        return StepTimeoutError(f"{self.what} took longer than its timeout of {self.timeout}.")

    def call(self) -> Any:
        with entered(self.frame), self.around:
            if self.is_async:
                return async_to_sync(self._awaited)()
            with time_limit(self.timeout, self.error):
                return self.function(*self.args, **self.kwargs)

    async def acall(self) -> Any:
        with entered(self.frame):
            if self.is_async:
                with self.around:
                    return await self._awaited()
            return await sync_to_async(self.call)()

    @property
    def is_async(self) -> bool:
        function = self.function
        while isinstance(function, functools.partial):
            function = function.func
        # An object whose class has an `async def __call__` counts too.
        return iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)

    async def _awaited(self) -> Any:
        return await within(self.timeout, self.error, self.function, *self.args, **self.kwargs)


async def a_moment() -> None:
    await asyncio.sleep(0.01)


Durable = Generator[Invoke, Any, T]


def refuse_event_loop(what: str) -> None:
    """The database is not to be used from a thread whose event loop is running: say what to do instead."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise SynchronousOnlyOperation(
        f"{what} was called from async code as a plain function. Await the one from django_stephooks.aio, "
        f"or wrap a plain step: `await sync_to_async({what})(…)`."
    )


def drive(durable: Durable[T], what: str) -> T:
    """Run a durable call from plain code."""
    refuse_event_loop(what)
    resume: Callable[[], Invoke] = functools.partial(next, durable)
    while True:
        try:
            invoke = resume()
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        try:
            value = invoke.call()
        except BaseException as error:  # noqa: BLE001  (the durable call decides what it means)
            resume = functools.partial(durable.throw, error)
        else:
            resume = functools.partial(durable.send, value)


async def adrive(durable: Durable[T]) -> T:
    """Run a durable call from async code."""
    notice_foreign_loop()
    resume: Callable[[], Invoke] = functools.partial(next, durable)
    while True:
        # What it raised is carried by hand: StopIteration can not cross a future, and signals
        # that are no Exceptions need not.
        invoke, value, error = await sync_to_async(_stretch)(resume)
        if error is not None:
            raise error
        if invoke is None:
            return value  # type: ignore[no-any-return]
        try:
            value = await invoke.acall()
        except BaseException as error:  # noqa: BLE001
            resume = functools.partial(durable.throw, error)
        else:
            resume = functools.partial(durable.send, value)


def _stretch(resume: Callable[[], Invoke]) -> tuple[Invoke | None, Any, BaseException | None]:
    try:
        return resume(), None, None
    except StopIteration as stop:
        return None, stop.value, None
    except BaseException as error:  # noqa: BLE001
        return None, None, error
