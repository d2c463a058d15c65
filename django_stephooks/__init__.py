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
        HookExpiredError,
        HookNotFoundError,
        HookTimeoutError,
        InvalidPayloadError,
        InvalidTokenError,
        NonDeterminismError,
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
    )
    from .services.hooks import resume_hook
    from .services.runs import cancel_run, retry_run
    from .types import STEP_HOOK_TIMEOUT, ResumeResult

__version__ = "0.1.0"

_MODULES = {
    "decorators": ["step", "workflow"],
    "exceptions": [
        "FatalError",
        "HookAlreadyReceivedError",
        "HookCancelledError",
        "HookExpiredError",
        "HookNotFoundError",
        "HookTimeoutError",
        "InvalidPayloadError",
        "InvalidTokenError",
        "NonDeterminismError",
        "NotInRunError",
        "RetryableError",
        "RunLostError",
        "RunStateError",
        "SerializationError",
        "StepFailedError",
        "StepHooksError",
        "StepTimeoutError",
        "UnknownWorkflowError",
    ],
    "primitives": [
        "delete_step_checkpoint",
        "load_step_checkpoint",
        "once",
        "save_step_checkpoint",
        "sleep",
        "step_hook",
    ],
    "services.hooks": ["resume_hook"],
    "services.runs": ["cancel_run", "retry_run"],
    "types": ["STEP_HOOK_TIMEOUT", "ResumeResult"],
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [  # noqa: PLE0604
    *_HOMES,
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
