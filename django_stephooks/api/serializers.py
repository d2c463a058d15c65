"""Hooks, runs and events as the API shows them, and what requests may say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from rest_framework import serializers

from django_stephooks.exceptions import SerializationError, StepHooksError
from django_stephooks.models import Event, Hook, Run
from django_stephooks.payloads import load_schema
from django_stephooks.review.people import reviewer_names
from django_stephooks.services.digest import digest_of

from .asked import json_schema
from .values import plain

# --- what is shown ---


class Subject(TypedDict):
    type: str
    id: str


class Failure(TypedDict):
    type: str
    message: str


class HookStatusField(serializers.ChoiceField):
    """`expired` from the deadline on, whether or not a sweep has come by."""

    def __init__(self, **options: Any) -> None:
        super().__init__(choices=Hook.Status.choices, **options)

    def get_attribute(self, instance: Hook) -> Any:
        return Hook.Status.EXPIRED if instance.is_past_deadline() else instance.status


class RunStatusField(serializers.ChoiceField):
    def __init__(self, **options: Any) -> None:
        super().__init__(choices=Run.Status.choices, **options)


class RecordedField(serializers.JSONField):
    """A recorded column as plain JSON; null if it can not be read any more, which `unreadable` tells."""

    def get_attribute(self, instance: Any) -> Any:
        return read(instance, self.field_name or "")[0]

    def to_representation(self, value: Any) -> Any:
        return plain(value)


def read(row: Any, name: str) -> tuple[Any, bool]:
    """A recorded column of a row, and whether it can be read."""
    try:
        return getattr(row, name), True
    except SerializationError:
        return None, False


def subject_of(run: Run) -> Subject | None:
    """What the run is about, without asking for its row."""
    if run.subject_type is None or run.subject_id is None:
        return None
    kind = run.subject_type
    return {"type": f"{kind.app_label}.{kind.model}", "id": run.subject_id}


def failure(recorded: Any) -> Failure | None:
    """A recorded exception without its traceback, which shows the code and the values in it."""
    if not isinstance(recorded, dict):
        return None
    return {"type": str(recorded.get("type", "")), "message": str(recorded.get("message", ""))}


class HookSummarySerializer(serializers.Serializer[Hook]):
    id = serializers.UUIDField(source="public_id", read_only=True)
    run = serializers.UUIDField(source="run.public_id", read_only=True)
    workflow = serializers.CharField(source="run.workflow", read_only=True)
    subject = serializers.SerializerMethodField(help_text="What the run is about.")
    name = serializers.CharField(read_only=True)
    title = serializers.CharField(source="__str__", read_only=True)
    status = HookStatusField(read_only=True)
    is_overdue = serializers.BooleanField(
        read_only=True, help_text="Past its deadline, and still to be answered."
    )
    created_at = serializers.DateTimeField(read_only=True)
    expires_at = serializers.DateTimeField(read_only=True, allow_null=True)
    settled_at = serializers.DateTimeField(read_only=True, allow_null=True)
    answered_by = serializers.CharField(source="answered_by_label", read_only=True)
    channel = serializers.CharField(read_only=True, help_text="The door that the answer came through.")

    def get_subject(self, hook: Hook) -> Subject | None:
        return subject_of(hook.run)


class HookSerializer(HookSummarySerializer):
    call = serializers.CharField(read_only=True, help_text="Where in the run it is asked.")
    description = serializers.CharField(read_only=True)
    # The serializer's own `context` stays what it is: fields are no attributes.
    context = RecordedField(  # type: ignore[assignment]
        read_only=True, help_text="What the reviewer is given to decide."
    )
    reviewers = serializers.SerializerMethodField(help_text="Whom it is put to; empty: to everybody.")
    payload = RecordedField(read_only=True, help_text="The answer, once there is one.")
    payload_schema = serializers.SerializerMethodField(
        help_text="JSON Schema of the payload; null if any is taken."
    )
    digest = serializers.SerializerMethodField(
        help_text="Of what is asked. Sent back as `seen`, it has an answer refused if that has changed."
    )
    may_answer = serializers.SerializerMethodField(help_text="Whether you may answer now.")
    reason = serializers.SerializerMethodField(help_text="Why you may not.")
    unreadable = serializers.SerializerMethodField(
        help_text="Fields that are null because what was recorded can not be read any more."
    )

    def get_reviewers(self, hook: Hook) -> list[str]:
        return reviewer_names(hook)

    def get_payload_schema(self, hook: Hook) -> dict[str, Any] | None:
        try:
            return json_schema(load_schema(hook.schema))
        except StepHooksError:
            return None

    def get_digest(self, hook: Hook) -> str:
        return digest_of(hook)

    def get_may_answer(self, hook: Hook) -> bool:
        return bool(self.context["decision"].may_answer)  # type: ignore[index]

    def get_reason(self, hook: Hook) -> str:
        return str(self.context["decision"].reason)  # type: ignore[index]

    def get_unreadable(self, hook: Hook) -> list[str]:
        return [name for name in ("context", "payload") if not read(hook, name)[1]]


class ReceiptSerializer(serializers.Serializer[Hook]):
    """The same whenever it is asked for: it tells of the answer, not of what the run has done since."""

    id = serializers.UUIDField(source="public_id", read_only=True)
    run = serializers.UUIDField(source="run.public_id", read_only=True)
    status = HookStatusField(read_only=True)
    answered_by = serializers.CharField(source="answered_by_label", read_only=True)
    answered_at = serializers.DateTimeField(source="settled_at", read_only=True)
    channel = serializers.CharField(read_only=True)


class RunReferenceSerializer(serializers.Serializer[Run]):
    id = serializers.UUIDField(source="public_id", read_only=True)
    workflow = serializers.CharField(read_only=True)
    status = RunStatusField(read_only=True)


class RunSummarySerializer(RunReferenceSerializer):
    subject = serializers.SerializerMethodField(help_text="What the run is about.")
    started_by = serializers.SerializerMethodField()
    created_at = serializers.DateTimeField(read_only=True)
    finished_at = serializers.DateTimeField(read_only=True, allow_null=True)

    def get_subject(self, run: Run) -> Subject | None:
        return subject_of(run)

    def get_started_by(self, run: Run) -> str:
        return run.started_by.get_username() if run.started_by else ""


class RunSerializer(RunSummarySerializer):
    queue = serializers.CharField(read_only=True)
    arguments = RecordedField(read_only=True)
    result = RecordedField(read_only=True)
    error = serializers.SerializerMethodField()
    actions = serializers.SerializerMethodField(help_text="What you may do now: `cancel`, `retry`.")
    unreadable = serializers.SerializerMethodField(
        help_text="Fields that are null because what was recorded can not be read any more."
    )

    def get_error(self, run: Run) -> Failure | None:
        return failure(read(run, "error")[0])

    def get_actions(self, run: Run) -> list[str]:
        return sorted(self.context["actions"])

    def get_unreadable(self, run: Run) -> list[str]:
        return [name for name in ("arguments", "result", "error") if not read(run, name)[1]]


class EventSerializer(serializers.Serializer[Event]):
    type = serializers.CharField(read_only=True)
    call = serializers.CharField(read_only=True, help_text="Which call of the run it is about.")
    created_at = serializers.DateTimeField(read_only=True)
    data = serializers.SerializerMethodField(  # type: ignore[assignment]
        help_text="Facts; null for the results of steps."
    )

    def get_data(self, event: Event) -> dict[str, Any] | None:
        data = self.context["data"].get(event.pk)
        if not isinstance(data, dict):
            return None
        kept = {name: item for name, item in data.items() if name not in ("traceback", "args")}
        if "error" in kept:
            kept["error"] = failure(kept["error"])
        shown: dict[str, Any] = plain(kept)
        return shown


class PageSerializer(serializers.Serializer[Any]):
    next = serializers.URLField(read_only=True, allow_null=True)


class HookPageSerializer(PageSerializer):
    results = HookSummarySerializer(many=True, read_only=True)


class RunPageSerializer(PageSerializer):
    results = RunSummarySerializer(many=True, read_only=True)


class EventPageSerializer(PageSerializer):
    results = EventSerializer(many=True, read_only=True)


class ProblemSerializer(serializers.Serializer[Any]):
    """RFC 9457. Programs look at `type`; the optional members come with some types only."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField(allow_blank=True)
    errors = serializers.DictField(  # type: ignore[assignment]
        child=serializers.ListField(child=serializers.CharField()),
        required=False,
        help_text='What is wrong, by field ("__all__": with no single one).',
    )
    answered_by = serializers.CharField(required=False, allow_blank=True)
    answered_at = serializers.DateTimeField(required=False)
    approved = serializers.BooleanField(
        required=False, allow_null=True, help_text="Of an answer that stands; null if it is of another kind."
    )


# --- what requests may say ---


class RequestSerializer(serializers.Serializer[Any]):
    """A body; what it has no field for is refused, lest a misspelled comment be lost."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping) and (unknown := sorted(set(data) - set(self.fields))):
            raise serializers.ValidationError({name: ["There is no such field."] for name in unknown})
        return super().to_internal_value(data)


class SeenSerializer(RequestSerializer):
    seen = serializers.RegexField(
        "^[0-9a-f]{64}$",
        required=False,
        help_text="The `digest` of the hook as you saw it; the answer is refused if that has changed.",
    )


class ApproveSerializer(SeenSerializer):
    comment = serializers.CharField(required=False, allow_blank=True, default="")


class RejectSerializer(SeenSerializer):
    comment = serializers.CharField(
        help_text="Why: whoever reads this has to know what to change.",
        error_messages=dict.fromkeys(
            ("required", "blank", "null"), "Say why: whoever reads this has to know what to change."
        ),
    )


class AnythingField(serializers.JSONField):
    """Any JSON; null is a value like any other."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_null=True, **options)

    def to_internal_value(self, data: Any) -> Any:
        return data


class ResumeSerializer(SeenSerializer):
    payload = AnythingField(help_text="The answer: any JSON that fits what is asked for.")


class ReasonSerializer(RequestSerializer):
    reason = serializers.CharField(required=False, allow_blank=True, default="", max_length=2000)


class StartSerializer(RequestSerializer):
    arguments = serializers.DictField(
        required=False, default=dict, child=AnythingField(), help_text="The workflow's arguments by name."
    )
    key = serializers.CharField(
        required=False,
        max_length=200,
        help_text="An idempotency key: starting again with it gives the same run.",
    )
