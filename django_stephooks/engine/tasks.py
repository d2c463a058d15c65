"""asyncio tasks in a run: each is a branch of its own, and a call ends when those begun in it have ended.

So `asyncio.gather` over steps and hooks works: when one of them waits, its siblings go on until
each has completed or waits too, and only then is the attempt, or the turn, settled.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from typing import Any, TypeVar

from .frames import Branch, Frame, current_branch, current_frame, start_branch

T = TypeVar("T")
Tasks = set[asyncio.Task[Any]]

# Those begun within the nearest call.
_tasks: contextvars.ContextVar[Tasks | None] = contextvars.ContextVar("stephooks_tasks", default=None)


async def with_tasks(function: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
    """Await the function, and then the tasks that were begun in it."""
    tasks: Tasks = set()
    token = _tasks.set(tasks)
    try:
        with _branching(asyncio.get_running_loop()):
            try:
                return await function(*args, **kwargs)
            except asyncio.CancelledError:
                _cancel(tasks)
                raise
            finally:
                await _ended(tasks)
    finally:
        _tasks.reset(token)


async def _ended(tasks: Tasks) -> None:
    try:
        while tasks:
            await asyncio.wait(tasks)
    except asyncio.CancelledError:
        _cancel(tasks)
        while tasks:
            await asyncio.wait(tasks)
        raise


def _cancel(tasks: Tasks) -> None:
    for task in tasks:
        task.cancel()


async def within(
    limit: timedelta | None,
    error: Callable[[], Exception],
    function: Callable[..., Coroutine[Any, Any, T]],
    *args: Any,
    **kwargs: Any,
) -> T:
    """`with_tasks`, raising `error()` if it takes longer than the limit, whatever the code does then."""
    if limit is None:
        return await with_tasks(function, *args, **kwargs)
    try:
        async with asyncio.timeout(limit.total_seconds()) as timeout:
            result = await with_tasks(function, *args, **kwargs)
    except Exception:
        # Its own TimeoutErrors are the function's; only ours means that its time was up.
        if timeout.expired():
            raise error() from None
        raise
    if timeout.expired():
        raise error()
    return result


def notice_foreign_loop() -> None:
    """A loop that the run's own code began: its tasks share a branch, but run in no certain order."""
    frame = current_frame()
    if frame is not None and not _is_ours(asyncio.get_running_loop().get_task_factory()):
        frame.turn.concurrent = True


def _is_ours(factory: Any) -> bool:
    return hasattr(factory, "makes_branches")


@contextlib.contextmanager
def _branching(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Give each task that a run's code creates a branch of its own, below its creator's."""
    outer: Any = loop.get_task_factory()
    if _is_ours(outer):
        yield
        return

    def factory(loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **options: Any) -> Any:
        context = options.pop("context", None) or contextvars.copy_context()
        frame = context.run(current_frame)
        if frame is not None:
            context.run(start_branch, Branch(context.run(current_branch)))
            frame.turn.concurrent = True
        if outer is None:
            task = asyncio.Task(coro, loop=loop, context=context, **options)
        else:
            task = outer(loop, coro, context=context, **options)
        tasks = context.run(_tasks.get)
        if tasks is not None:
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            task.add_done_callback(functools.partial(_look_at, frame))
        return task

    factory.makes_branches = True  # type: ignore[attr-defined]
    loop.set_task_factory(factory)  # type: ignore[arg-type]
    try:
        yield
    finally:
        loop.set_task_factory(outer)


def _look_at(frame: Frame | None, task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # so that asyncio does not report a signal that nobody awaited
    elif frame is not None:
        frame.turn.interrupted = True
