"""What a step sends to whoever watches its run while it works, and the address where they do.

    @step
    def answer(question):
        for token in model(question):
            emit({"token": token})

Whatever needs models is imported late: a module with workflows may be imported before models may.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import aclosing, closing
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.urls import reverse

from .engine.driving import refuse_event_loop
from .engine.frames import current_frame
from .questions import checked_name

if TYPE_CHECKING:
    from .models import Run

P = ParamSpec("P")
R = TypeVar("R")

STREAM = "stream"
URL_NAME = "stephooks-api:stream-by-token"


def emit(chunk: Any, *, key: str | None = None) -> None:
    """Send a chunk, plain JSON of at most MAX_CHUNK_BYTES, to whoever watches this run.

    When the step runs again, what was emitted already is not sent again: with a `key`, which is this
    step call's own, never; without one, as long as the same chunks come in the same order. If another
    one comes, watchers are told to go back to there. A checkpoint that is loaded takes the counting
    along. See `emitted`.

    It is for the live view only, and best effort: while Redis is down chunks wait, and some may be lost.
    Outside a run the chunk is checked, and nobody sees it. SerializationError for what is not plain JSON
    or too big.
    """
    if current_frame() is not None:
        refuse_event_loop("emit")
    _emit(chunk, key)


async def aemit(chunk: Any, *, key: str | None = None) -> None:
    """`emit` for async code."""
    await sync_to_async(_emit)(chunk, key)


def emitted() -> int:
    """How many chunks without a key this step call has emitted, as far as its code has come now.

    Those before the checkpoint that it loaded count as well: right behind `load_step_checkpoint` this is
    how many it had emitted when that was saved. 0 outside a run.
    """
    frame = current_frame()
    return 0 if frame is None else frame.emitted


def _emit(chunk: Any, key: str | None) -> None:
    from . import codec
    from .conf import app_settings

    if key is not None:
        checked_name(key, "key")
    limit = int(app_settings.MAX_CHUNK_BYTES)
    text = codec.dumps_plain(chunk, root="chunk", max_bytes=limit, setting="MAX_CHUNK_BYTES")
    frame = current_frame()
    if frame is None:
        return
    from .engine.chunks import Emitted
    from .engine.limits import shielded

    frame.gate()
    emitted = Emitted(frame.call, frame.emitted, key, text)
    if key is None:
        frame.emitted += 1
    # A time limit may not end it between Redis and what is noted of it.
    with shielded():
        frame.turn.chunks.emit(emitted)


def emitting(function: Callable[P, Generator[Any, Any, R]]) -> Callable[P, R]:
    """A generator function as a function that emits what it yields and returns what it returns."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with closing(function(*args, **kwargs)) as chunks:
            while True:
                try:
                    chunk = next(chunks)
                except StopIteration as stop:
                    result: R = stop.value
                    return result
                emit(chunk)

    return run


def aemitting(
    function: Callable[P, AsyncGenerator[Any, Any]],
) -> Callable[P, Coroutine[Any, Any, None]]:
    """An async generator function as one that emits what it yields; it can return nothing."""

    @wraps(function)
    async def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async with aclosing(function(*args, **kwargs)) as chunks:
            async for chunk in chunks:
                await aemit(chunk)

    return run


def stream_token(run: Run) -> str:
    """Lets whoever has it watch this run, and nothing else."""
    from .tokens import make_token

    return make_token(run.public_id, version=1, purpose=STREAM)


def stream_url(run: Run) -> str:
    """The path where somebody without an account can watch this run: for an EventSource in a page."""
    return reverse(URL_NAME, args=[stream_token(run)])
