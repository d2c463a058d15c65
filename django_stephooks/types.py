"""Small values that pass between the layers, and the timeout sentinel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


class StepHookTimeout:
    """The type of STEP_HOOK_TIMEOUT: one object per process, also after copying or pickling."""

    _instance: StepHookTimeout | None = None

    def __new__(cls) -> StepHookTimeout:
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __reduce__(self) -> str:
        # Pickled as the name of a module global, so unpickling finds the one object.
        return "STEP_HOOK_TIMEOUT"

    def __copy__(self) -> StepHookTimeout:
        return self

    def __deepcopy__(self, memo: Any) -> StepHookTimeout:
        return self

    def __repr__(self) -> str:
        return "STEP_HOOK_TIMEOUT"

    def __bool__(self) -> bool:
        return False


STEP_HOOK_TIMEOUT: Final = StepHookTimeout()


@dataclass(frozen=True, kw_only=True)
class ResumeResult:
    """What `resume_hook` did: primary keys of the run and the hook, and the hook's new status."""

    run_id: int
    hook_id: int
    status: str


@dataclass(frozen=True, kw_only=True)
class Actor:
    """Who did something, for the journal: a user's primary key (if there is one) and what to call them."""

    user_id: Any = None
    label: str = ""


SYSTEM_DEADLINE: Final = Actor(label="system (deadline)")
SYSTEM_RACE: Final = Actor(label="system (somebody else was first)")
