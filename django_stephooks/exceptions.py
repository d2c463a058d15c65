"""Every error that leaves this package, under one root.

A class's docstring is its default message. `status_code` is the one HTTP answer that an error maps to.
"""

from __future__ import annotations

from typing import Any


class StepHooksError(Exception):
    """Something went wrong in django-stephooks."""

    status_code = 500

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class FatalError(StepHooksError):
    """The step failed for good; it is not retried."""


class RetryableError(StepHooksError):
    """The step failed and may be tried again.

    `retry_after`: how long to wait before the next attempt ("30s", seconds, a timedelta);
    None leaves it to the step's `retry_delay`. The attempt counts against `max_retries`.
    """

    def __init__(self, message: str = "", *, retry_after: Any = None) -> None:
        super().__init__(message or "The step asked to be tried again.")
        self.retry_after = retry_after


class StepFailedError(StepHooksError):
    """A step failed with an exception whose class can not be rebuilt here."""


class StepTimeoutError(StepHooksError):
    """The step took longer than its timeout allows."""


class TurnTimeoutError(StepTimeoutError):
    """The run was worked on for longer than its job_timeout allows."""


class NotInRunError(StepHooksError, RuntimeError):
    """This function only works inside a run."""


class UnknownWorkflowError(StepHooksError):
    """No workflow or step has this name."""

    status_code = 404


class RunStateError(StepHooksError):
    """The run's status does not allow this."""

    status_code = 409


class RunLostError(StepHooksError):
    """This worker's lease on the run has ended; another worker may be at it, so nothing more is written."""


class NonDeterminismError(StepHooksError):
    """The code no longer fits what this run has recorded."""


class SerializationError(StepHooksError, ValueError):
    """This value can not be stored."""

    status_code = 400


class InvalidTokenError(StepHooksError):
    """This is not a valid hook token."""

    status_code = 404


class LinkRevokedError(InvalidTokenError):
    """This link was revoked; a newer one may have been sent."""

    status_code = 410


class HookNotFoundError(StepHooksError):
    """There is no such hook (any more)."""

    status_code = 404


class NotAllowedError(StepHooksError):
    """This user may not do that."""

    status_code = 403


class HookError(StepHooksError):
    """The hook can not be answered now."""

    def __init__(self, message: str = "", *, hook: Any = None) -> None:
        super().__init__(message)
        self.hook = hook


class HookAlreadyReceivedError(HookError):
    """The hook was already answered.

    `hook` is the row with the decision that stands: `payload`, `answered_by_label`, `settled_at`.
    """

    status_code = 409


class HookExpiredError(HookError):
    """The hook's deadline has passed."""

    status_code = 410


class HookCancelledError(HookError):
    """The hook's question is no longer asked: its run is over."""

    status_code = 410


class HookChangedError(HookError):
    """What the hook asks has changed since it was shown; look at it again. Nothing was used up."""

    status_code = 409


class HookTimeoutError(HookError):
    """Nobody answered the hook before its deadline."""


class InvalidPayloadError(StepHooksError, ValueError):
    """The payload does not fit what the hook asks for.

    `errors`: {"field": ["message", …]}; "__all__" for what belongs to no field.
    """

    status_code = 400

    def __init__(self, message: str = "", *, errors: dict[str, list[str]] | None = None) -> None:
        super().__init__(message or "The payload does not fit what the hook asks for.")
        self.errors = errors or {}
