"""Stop a background job in the middle to ask a person, and go on when the person answers.

The public names are imported when they are first asked for (PEP 562): Django imports this package
from INSTALLED_APPS before models may exist.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .decorators import step, workflow
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
        RunStateError,
        SerializationError,
        StepFailedError,
        StepHooksError,
        StepTimeoutError,
        UnknownWorkflowError,
    )
    from .primitives import (
        delete_step_checkpoint,
        load_step_checkpoint,
        once,
        save_step_checkpoint,
        sleep,
        step_hook,
        wait_all,
        wait_first,
    )
    from .questions import question
    from .services.hooks import resume_hook
    from .services.runs import cancel_run, retry_run
    from .streaming import emit, emitted
    from .types import STEP_HOOK_TIMEOUT, ResumeResult

__version__ = "0.1.0"

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
    "RunStateError",
    "SerializationError",
    "StepFailedError",
    "StepHooksError",
    "StepTimeoutError",
    "UnknownWorkflowError",
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

_HOMES = {
    "step": "decorators",
    "workflow": "decorators",
    "delete_step_checkpoint": "primitives",
    "load_step_checkpoint": "primitives",
    "once": "primitives",
    "save_step_checkpoint": "primitives",
    "sleep": "primitives",
    "step_hook": "primitives",
    "wait_all": "primitives",
    "wait_first": "primitives",
    "question": "questions",
    "emit": "streaming",
    "emitted": "streaming",
    "resume_hook": "services.hooks",
    "cancel_run": "services.runs",
    "retry_run": "services.runs",
    "STEP_HOOK_TIMEOUT": "types",
    "ResumeResult": "types",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, "exceptions")
    value = getattr(importlib.import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
