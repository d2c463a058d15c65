"""What every view of the API has in common.

Nothing of it comes from a project's REST_FRAMEWORK setting but how users authenticate: a forgotten
default must not open these views, nor close them to those who have a token.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.schemas import DefaultSchema
from rest_framework.serializers import Serializer
from rest_framework.views import APIView, set_rollback

from . import problems
from .media import SafeJSONRenderer, StrictJSONParser, refuse_large_body
from .permissions import IsKnown

try:
    from .schema import OperationSchema
except ImportError:
    # Without drf-spectacular there is no document, and nothing else is missing.
    _schema: Any = DefaultSchema()
else:
    _schema = OperationSchema()


logger = logging.getLogger("django_stephooks")


class ApiView(APIView):
    """One operation. What follows is read by the view and by the OpenAPI document alike."""

    operation = ""
    request_serializer: type[Serializer[Any]] | None = None
    query_serializer: type[Serializer[Any]] | None = None
    response_serializer: type[Serializer[Any]] | None = None
    success_status = 200
    # Of another kind than JSON.
    success_media_type = ""
    # A header that says where the last reply ended.
    goes_on_from = ""
    problem_statuses: Sequence[int] = ()
    takes_idempotency_key = False

    renderer_classes: Sequence[Any] = (SafeJSONRenderer,)
    parser_classes = (StrictJSONParser,)
    permission_classes: Sequence[Any] = (IsKnown,)
    throttle_classes: Sequence[Any] = ()
    metadata_class = None
    versioning_class = None
    schema = _schema

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        # First of all: authentication by session looks for a CSRF token in the body.
        refuse_large_body(request)
        super().initial(request, *args, **kwargs)

    def get_exception_handler(self) -> Any:
        return problems.handle

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        response["Cache-Control"] = "private, no-store"
        return response

    def query(self) -> dict[str, Any]:
        """The checked query parameters; ValidationError."""
        assert self.query_serializer is not None  # noqa: S101
        serializer = self.query_serializer(data=self.request.query_params)
        serializer.is_valid(raise_exception=True)
        found: dict[str, Any] = serializer.validated_data
        return found

    def body(self) -> dict[str, Any]:
        """The checked body; ValidationError."""
        assert self.request_serializer is not None  # noqa: S101
        serializer = self.request_serializer(data=self.request.data)
        serializer.is_valid(raise_exception=True)
        found: dict[str, Any] = serializer.validated_data
        return found

    def respond(self, instance: Any, **context: Any) -> Response:
        assert self.response_serializer is not None  # noqa: S101
        serializer = self.response_serializer(instance, context={"request": self.request, **context})
        return Response(serializer.data, status=self.success_status)


class NamelessPath:
    """For views whose path holds a token: it is in no log."""

    def handle_exception(self, exc: Exception) -> Response:
        try:
            response: Response = super().handle_exception(exc)  # type: ignore[misc]
        except Exception:  # whatever it is, such as a database that is away
            # Django would log it together with the path.
            logger.exception("A request by token could not be taken.")
            set_rollback()
            return problems.problem("broken", 500, "It was logged. Try again in a while.")
        return response

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)  # type: ignore[misc]
        # Django would log the path of a refused request, likewise.
        response._has_been_logged = True
        return response


class NoSuchAddress(ApiView):
    """Everything below the API's root that is none of its addresses."""

    permission_classes = ()
    authentication_classes = ()
    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        raise NotFound("There is nothing at this address. Those of this API end with a slash.")
