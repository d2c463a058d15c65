"""`GET /runs/…`, `POST /runs/{id}/cancel|retry/` and `POST /workflows/{name}/start/`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from django_stephooks import registry
from django_stephooks.codec import Encoded
from django_stephooks.exceptions import UnknownWorkflowError
from django_stephooks.models import Event, Run
from django_stephooks.models.run import RunQuerySet
from django_stephooks.models.transactions import write_alias
from django_stephooks.services import runs as service
from django_stephooks.services.rules import CANCEL, RETRY, run_actions_for

from .base import ApiView
from .filters import OWN_RUNS, RunQuery, filter_runs
from .pagination import JournalQuery, NewestFirst, as_page, in_order
from .permissions import VIEW_RUN, find_visible, require
from .serializers import (
    EventPageSerializer,
    ReasonSerializer,
    RunPageSerializer,
    RunReferenceSerializer,
    RunSerializer,
    StartSerializer,
)
from .throttles import AnswerThrottle, ReadThrottle

START = "django_stephooks.start_run"

# Their data is what a step returned, of any size; a run's own result is shown with the run.
RESULTS = (Event.Type.STEP_COMPLETED, Event.Type.ONCE_COMPLETED)


def _summary() -> tuple[str, ...]:
    """No column of unknown size, and of the user nothing but the name."""
    return (
        "public_id",
        "workflow",
        "status",
        "created_at",
        "finished_at",
        "subject_id",
        "subject_type__app_label",
        "subject_type__model",
        f"started_by__{get_user_model().USERNAME_FIELD}",
    )


class RunList(NewestFirst):
    """Runs, the newest first."""

    operation = "runs_list"
    query_serializer = RunQuery
    response_serializer = RunPageSerializer
    list_permission = VIEW_RUN

    def rows(self, query: dict[str, Any]) -> RunQuerySet:
        runs = filter_runs(Run.objects.all(), query)
        return runs.select_related("subject_type", "started_by").only(*_summary())


class RunDetail(ApiView):
    """One run, with what it was given and what came of it."""

    operation = "runs_show"
    response_serializer = RunSerializer
    problem_statuses = (403, 404, 429)
    throttle_classes = (ReadThrottle,)

    def get(self, request: Request, public_id: UUID) -> Response:
        runs = Run.objects.select_related("subject_type", "started_by")
        run = find_visible(request, runs, VIEW_RUN, public_id)
        return self.respond(run, actions=run_actions_for(request.user, run))


class RunEvents(ApiView):
    """The run's journal, from its beginning."""

    operation = "runs_events"
    query_serializer = JournalQuery
    response_serializer = EventPageSerializer
    problem_statuses = (400, 403, 404, 429)
    throttle_classes = (ReadThrottle,)

    def get(self, request: Request, public_id: UUID) -> Response:
        run = find_visible(request, Run.objects.only("public_id"), VIEW_RUN, public_id)
        events, cursor = in_order(run.events.defer("data"), self.query())
        telling = [event.pk for event in events if event.type not in RESULTS]
        data = dict(Event.objects.filter(pk__in=telling).values_list("pk", "data"))
        readable = {pk: value for pk, value in data.items() if not isinstance(value, Encoded)}
        return self.respond(as_page(request, events, cursor), data=readable)


class RunAction(ApiView):
    request_serializer = ReasonSerializer
    response_serializer = RunReferenceSerializer
    problem_statuses = (400, 403, 404, 409, 413, 415, 429)
    throttle_classes = (AnswerThrottle,)
    permission: str
    forbidden: str
    # What is called with the run, `by` and `reason`.
    act: Callable[..., Run]

    def post(self, request: Request, public_id: UUID) -> Response:
        run = find_visible(request, Run.objects.using(write_alias()), VIEW_RUN, public_id)
        require(request.user, self.permission, run, f"Run {run.pk} may not be {self.forbidden}")
        return self.respond(self.act(run, by=request.user, reason=self.body()["reason"]))


class Cancel(RunAction):
    """End a run for good: its questions are no longer asked."""

    operation = "runs_cancel"
    permission = CANCEL
    forbidden = "cancelled"
    act = staticmethod(service.cancel_run)


class Retry(RunAction):
    """Let a failed run go on from what it has recorded."""

    operation = "runs_retry"
    permission = RETRY
    forbidden = "retried"
    act = staticmethod(service.retry_run)


class Start(ApiView):
    """Begin a run of a workflow. Its arguments are checked against the function's signature."""

    operation = "workflows_start"
    request_serializer = StartSerializer
    response_serializer = RunReferenceSerializer
    success_status = 201
    problem_statuses = (400, 403, 404, 413, 415, 429)
    throttle_classes = (AnswerThrottle,)

    def post(self, request: Request, name: str) -> Response:
        require(request.user, START, None, "Runs may not be started")
        definition = registry.get(name)
        if definition.kind != "workflow" or name.startswith(OWN_RUNS):
            raise UnknownWorkflowError(f"{name!r} is not a workflow that can be started from here.")
        body = self.body()
        run = service.start(
            definition.name,
            _bound(definition.bind, body["arguments"]),
            queue=definition.queue,
            max_recoveries=definition.max_recoveries,
            key=body.get("key"),
            started_by=request.user,
        )
        return self.respond(run)


def _bound(bind: Callable[..., dict[str, Any]], arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        return bind((), arguments)
    except TypeError as error:
        raise ValidationError({"arguments": [str(error)]}) from None
