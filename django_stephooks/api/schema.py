"""The OpenAPI document, by drf-spectacular; imported only where that is installed.

    python manage.py spectacular --urlconf django_stephooks.api.urls \\
        --custom-settings django_stephooks.api.schema.SETTINGS --validate --fail-on-warn
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse

from django_stephooks import __version__

from .idempotency import HEADER, MAX_LENGTH
from .problems import MEDIA_TYPE
from .serializers import ProblemSerializer

SETTINGS = {
    "TITLE": "django-stephooks",
    "DESCRIPTION": "Questions that runs ask people, their answers, and the runs.",
    "VERSION": __version__,
}

_PROBLEMS = {
    400: "The request can not be taken like this; `errors` tells why, by field.",
    401: "It is not known who you are.",
    403: "You may not do that.",
    404: "There is no such thing, or you may not see it.",
    409: "It has been answered already, or is not what you saw, or the run's status does not allow it.",
    410: "The deadline has passed, or the question is no longer asked.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "This Idempotency-Key came with another body before.",
    429: "Too many requests; try again after the seconds that Retry-After says.",
}


class OperationSchema(AutoSchema):
    """A view's operation, read from the attributes that `ApiView` lists."""

    view: Any

    def get_operation_id(self) -> str:
        return f"stephooks_{self.view.operation}"

    def get_tags(self) -> list[str]:
        return ["stephooks"]

    def get_serializer_name(self, serializer: Any, direction: Any) -> str:
        # A project that documents its own API together with ours may well have a "Hook" too.
        return f"StepHooks{super().get_serializer_name(serializer, direction)}"

    def _is_list_view(self, serializer: Any = None) -> bool:
        # A page is an object with the list in it.
        return False

    def get_override_parameters(self) -> list[Any]:
        parameters: list[Any] = []
        if self.view.query_serializer is not None:
            parameters.append(self.view.query_serializer)
        if self.view.takes_idempotency_key:
            parameters.append(
                OpenApiParameter(
                    HEADER,
                    {"type": "string", "maxLength": MAX_LENGTH},
                    OpenApiParameter.HEADER,
                    description="The same key and body get the same reply, and answer once.",
                )
            )
        if self.view.goes_on_from:
            parameters.append(
                OpenApiParameter(
                    self.view.goes_on_from,
                    str,
                    OpenApiParameter.HEADER,
                    description="As an EventSource sends it; what is none of our ids begins anew.",
                )
            )
        parameters.append(
            OpenApiParameter(
                "Retry-After", int, OpenApiParameter.HEADER, response=[429], description="Seconds."
            )
        )
        return parameters

    def get_request_serializer(self) -> Any:
        return self.view.request_serializer

    def get_response_serializers(self) -> Any:
        statuses = set(self.view.problem_statuses)
        if self.view.authentication_classes:
            statuses.add(401)
        return {
            **self._success(),
            **{
                (status, MEDIA_TYPE): OpenApiResponse(ProblemSerializer, description=_PROBLEMS[status])
                for status in sorted(statuses)
            },
        }

    def _success(self) -> dict[Any, Any]:
        view = self.view
        if not view.success_media_type:
            return {view.success_status: OpenApiResponse(view.response_serializer, description="Done.")}
        return {
            (view.success_status, view.success_media_type): OpenApiResponse(
                OpenApiTypes.STR, description="Server-sent events."
            ),
            204: OpenApiResponse(description="You have had the last event already."),
        }


class _Status(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    """A component with a name of ours: spectacular would have to guess one for two fields `status`."""

    name = ""

    def get_name(self) -> str | None:
        return self.name

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.target.choices)}


class HookStatus(_Status):  # type: ignore[no-untyped-call]
    target_class = "django_stephooks.api.serializers.HookStatusField"
    name = "StepHooksHookStatus"


class RunStatus(_Status):  # type: ignore[no-untyped-call]
    target_class = "django_stephooks.api.serializers.RunStatusField"
    name = "StepHooksRunStatus"
