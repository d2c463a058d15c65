"""Errors as RFC 9457 problem details: `application/problem+json` with a `type` that does not change."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback

from django_stephooks.exceptions import (
    HookAlreadyReceivedError,
    HookCancelledError,
    HookChangedError,
    HookExpiredError,
    InvalidPayloadError,
    NotAllowedError,
    RunStateError,
    SerializationError,
    StepHooksError,
)
from django_stephooks.services.rules import approval

from .media import BodyTooLarge

logger = logging.getLogger("django_stephooks")

MEDIA_TYPE = "application/problem+json"
PREFIX = "urn:stephooks:"

TITLES = {
    "already-answered": "Somebody has answered already",
    "expired": "The deadline has passed",
    "cancelled": "This is no longer asked",
    "changed": "What is asked has changed",
    "invalid-payload": "The answer can not be taken like this",
    "invalid-request": "The request can not be taken like this",
    "malformed": "The body can not be read",
    "not-allowed": "This is not allowed",
    "not-authenticated": "It is not known who you are",
    "not-found": "There is no such thing",
    "wrong-status": "The run's status does not allow this",
    "idempotency-key-reused": "This Idempotency-Key came with another body before",
    "method-not-allowed": "This method is not supported here",
    "not-acceptable": "The answer is JSON, which was not asked for",
    "unsupported-media-type": "The body has to be JSON",
    "too-large": "The body is too large",
    "throttled": "Too many requests",
    "error": "The request failed",
    "broken": "Something is broken on the server",
}

# The first that fits counts.
_OURS: tuple[tuple[type[StepHooksError], str], ...] = (
    (HookAlreadyReceivedError, "already-answered"),
    (HookExpiredError, "expired"),
    (HookCancelledError, "cancelled"),
    (HookChangedError, "changed"),
    (InvalidPayloadError, "invalid-payload"),
    (SerializationError, "invalid-payload"),
    (NotAllowedError, "not-allowed"),
    (RunStateError, "wrong-status"),
)
_FRAMEWORKS: tuple[tuple[type[exceptions.APIException], str], ...] = (
    (exceptions.ValidationError, "invalid-request"),
    (exceptions.ParseError, "malformed"),
    (exceptions.NotAuthenticated, "not-authenticated"),
    (exceptions.AuthenticationFailed, "not-authenticated"),
    (exceptions.PermissionDenied, "not-allowed"),
    (exceptions.NotFound, "not-found"),
    (exceptions.MethodNotAllowed, "method-not-allowed"),
    (exceptions.NotAcceptable, "not-acceptable"),
    (exceptions.UnsupportedMediaType, "unsupported-media-type"),
    (exceptions.Throttled, "throttled"),
    (BodyTooLarge, "too-large"),
)


class IdempotencyKeyReusedError(StepHooksError):
    """This Idempotency-Key was used with another body before; give each answer a key of its own."""

    status_code = 422


def handle(error: Exception, context: Mapping[str, Any]) -> Response | None:
    """The response to an exception; None for one that nobody expected, which Django reports."""
    if isinstance(error, Http404):
        error = exceptions.NotFound()
    elif isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied()
    if isinstance(error, StepHooksError):
        # No rollback: the services undo what they did not finish, and a deadline that was found to
        # have passed is written down.
        return _from_ours(error)
    if isinstance(error, exceptions.APIException):
        set_rollback()
        return _from_framework(error)
    return None


def problem(slug: str, status: int, detail: str = "", **members: Any) -> Response:
    data = {"type": f"{PREFIX}{slug}", "title": TITLES[slug], "status": status, "detail": detail, **members}
    return Response(data, status=status, content_type=MEDIA_TYPE)


def _from_ours(error: StepHooksError) -> Response:
    if error.status_code >= 500:
        logger.error("The API could not take a request.", exc_info=error)
        return problem("broken", error.status_code, "It was logged; try again once it is mended.")
    if isinstance(error, IdempotencyKeyReusedError):
        return problem("idempotency-key-reused", error.status_code, str(error))
    fallback = "not-found" if error.status_code == 404 else "error"
    slug = next((slug for kind, slug in _OURS if isinstance(error, kind)), fallback)
    return problem(slug, error.status_code, str(error), **_members(error))


def _members(error: StepHooksError) -> dict[str, Any]:
    """What a program wants to know of the error besides its sentence."""
    if isinstance(error, InvalidPayloadError):
        return {"errors": error.errors}
    if isinstance(error, SerializationError):
        where, separator, why = str(error).partition(": ")
        return {"errors": {where: [why]} if separator else {"__all__": [where]}}
    if isinstance(error, HookAlreadyReceivedError) and error.hook is not None:
        hook = error.hook
        return {
            "answered_by": hook.answered_by_label,
            "answered_at": hook.settled_at,
            "approved": approval(hook),
        }
    return {}


def _from_framework(error: exceptions.APIException) -> Response:
    slug = next((slug for kind, slug in _FRAMEWORKS if isinstance(error, kind)), "error")
    if isinstance(error, exceptions.ValidationError):
        errors = by_field(error.detail)
        response = problem(slug, error.status_code, sentence(errors), errors=errors)
    else:
        response = problem(slug, error.status_code, str(error.detail))
    if header := getattr(error, "auth_header", None):
        response["WWW-Authenticate"] = header
    if isinstance(error, exceptions.Throttled):
        response["Retry-After"] = str(max(1, math.ceil(getattr(error, "wait", None) or 0)))
    return response


def by_field(detail: Any, path: str = "") -> dict[str, list[str]]:
    """A serializer's errors as `InvalidPayloadError.errors` has them: {"field": ["message", …]}."""
    if isinstance(detail, dict):
        errors: dict[str, list[str]] = {}
        for name, item in detail.items():
            name = "__all__" if name == "non_field_errors" else str(name)
            errors |= by_field(item, f"{path}.{name}" if path else name)
        return errors
    messages = detail if isinstance(detail, list) else [detail]
    return {path or "__all__": [str(message) for message in messages]}


def sentence(errors: Mapping[str, list[str]]) -> str:
    return " ".join(
        " ".join(messages) if field == "__all__" else f"{field}: {' '.join(messages)}"
        for field, messages in errors.items()
    )
