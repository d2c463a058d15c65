"""The public names, awaitable, for `async def` workflows and steps.

One implementation stands behind both: these differ only in how they call the project's functions
and in that the database is used from Django's thread for synchronous code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

from . import primitives, streaming
from .decorators import step, workflow
from .engine.driving import adrive
from .engine.frames import require_frame
from .exceptions import (
    FatalError,
    HookAlreadyReceivedError,
    HookCancelledError,
    HookChangedError,
    HookExpiredError,
    HookNotFoundError,
    HookTimeoutError,
    InvalidPayloadError,
    InvalidTokenError,
    NonDeterminismError,
    NotAllowedError,
    NotInRunError,
    RetryableError,
    RunLostError,
    SerializationError,
    StepHooksError,
)
from .questions import Question, checked_name, question
from .streaming import aemit as emit
from .types import STEP_HOOK_TIMEOUT, ResumeResult

if TYPE_CHECKING:
    from .models import Run

__all__ = [
    "STEP_HOOK_TIMEOUT",
    "FatalError",
    "HookAlreadyReceivedError",
    "HookCancelledError",
    "HookChangedError",
    "HookExpiredError",
    "HookNotFoundError",
    "HookTimeoutError",
    "InvalidPayloadError",
    "InvalidTokenError",
    "NonDeterminismError",
    "NotAllowedError",
    "NotInRunError",
    "ResumeResult",
    "RetryableError",
    "RunLostError",
    "SerializationError",
    "StepHooksError",
    "cancel_run",
    "delete_step_checkpoint",
    "emit",
    "emitted",
    "load_step_checkpoint",
    "once",
    "question",
    "resume_hook",
    "retry_run",
    "save_step_checkpoint",
    "sleep",
    "step",
    "step_hook",
    "wait_all",
    "wait_first",
    "workflow",
]


async def step_hook(
    name: str,
    *,
    timeout: Any = None,
    on_created: Callable[[str], Any] | None = None,
    on_timeout: str = "raise",
    payload_schema: Any = None,
    key: str | None = None,
    title: str = "",
    description: str = "",
    context: Any = None,
    reviewers: Iterable[Any] = (),
) -> Any:
    """`step_hook` for async code; `on_created` may be `async def` too."""
    frame = require_frame("step_hook")
    asked = question(
        name,
        timeout=timeout,
        on_created=on_created,
        on_timeout=on_timeout,
        payload_schema=payload_schema,
        key=key,
        title=title,
        description=description,
        context=context,
        reviewers=reviewers,
    )
    from .engine import asking

    return await adrive(asking.ask_one(frame, asked))


async def wait_all(*questions: Question) -> list[Any]:
    """`wait_all` for async code; each `on_created` may be `async def` too."""
    from .engine import asking

    return await adrive(asking.ask_all(require_frame("wait_all"), questions))


async def wait_first(*questions: Question) -> tuple[Question, Any]:
    """`wait_first` for async code; each `on_created` may be `async def` too."""
    from .engine import asking

    return await adrive(asking.ask_first(require_frame("wait_first"), questions))


async def save_step_checkpoint(data: Any) -> None:
    """`save_step_checkpoint` for async code."""
    await sync_to_async(primitives.save_step_checkpoint)(data)


async def load_step_checkpoint() -> Any:
    """`load_step_checkpoint` for async code."""
    return await sync_to_async(primitives.load_step_checkpoint)()


async def delete_step_checkpoint() -> None:
    """`delete_step_checkpoint` for async code."""
    primitives.delete_step_checkpoint()


async def once(key: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`once` for async code; the function may be `async def` too."""
    from .engine import calls

    frame = require_frame("once")
    return await adrive(calls.run_once(frame, checked_name(key, "key"), function, args, kwargs))


async def emitted() -> int:
    """`emitted` for async code."""
    return streaming.emitted()


async def sleep(duration: Any) -> None:
    """`sleep` for async code."""
    primitives.sleep(duration)


async def resume_hook(
    token: str,
    payload: Any = None,
    *,
    by: Any = None,
    channel: str = "python",
    seen: str | None = None,
    note: dict[str, Any] | None = None,
) -> ResumeResult:
    """`resume_hook` for async code."""
    from .services.hooks import resume_hook

    return await sync_to_async(resume_hook)(token, payload, by=by, channel=channel, seen=seen, note=note)


async def cancel_run(run: Run | int, *, by: Any = None, reason: str = "") -> Run:
    """`cancel_run` for async code."""
    from .services.runs import cancel_run

    return await sync_to_async(cancel_run)(run, by=by, reason=reason)


async def retry_run(run: Run | int, *, by: Any = None, reason: str = "") -> Run:
    """`retry_run` for async code."""
    from .services.runs import retry_run

    return await sync_to_async(retry_run)(run, by=by, reason=reason)
