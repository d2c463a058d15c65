"""`POST /hooks/{id}/approve|reject|resume/`, and `POST /resume/{token}/` for systems without an account.

All of them go through `resume_hook`, which asks the rule book; whoever may not answer, or comes too
late, is told so before what is wrong with their body.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.utils import timezone
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from django_stephooks import tokens
from django_stephooks.exceptions import HookAlreadyReceivedError, InvalidPayloadError
from django_stephooks.models import Hook
from django_stephooks.models.transactions import write_alias
from django_stephooks.review.forms import verdict
from django_stephooks.services.hooks import find_hook, resume_hook
from django_stephooks.services.rules import not_allowed, refusal

from .base import ApiView, NamelessPath
from .idempotency import IdempotencyKey, key_of
from .permissions import VIEW_HOOK, find_visible
from .problems import by_field, sentence
from .serializers import ApproveSerializer, ReceiptSerializer, RejectSerializer, ResumeSerializer
from .throttles import AnswerThrottle, TokenThrottle

TOKEN_HOLDER = "the holder of the token"  # noqa: S105


class AnswerView(ApiView):
    response_serializer = ReceiptSerializer
    problem_statuses: Sequence[int] = (400, 403, 404, 409, 410, 413, 415, 422, 429)
    takes_idempotency_key = True
    throttle_classes: Sequence[Any] = (AnswerThrottle,)
    channel = "api"

    def payload_of(self, hook: Hook, body: dict[str, Any]) -> Any:
        return body["payload"]

    def post(self, request: Request, public_id: UUID) -> Response:
        hooks = Hook.objects.using(write_alias()).select_related("run")
        if not request.user.is_active:
            # Only an authentication of the project's own lets such a user come here.
            self._say_why_not(request.user, hooks.filter(public_id=public_id).first())
        hook = find_visible(request, hooks, VIEW_HOOK, public_id)
        return self.answer(hook, hook.token, by=request.user, user_id=request.user.pk)

    def answer(self, hook: Hook, token: str, *, by: Any, user_id: Any) -> Response:
        key = key_of(self.request, self.operation)
        try:
            body = self._body_for(hook, by)
            resume_hook(
                token,
                self.payload_of(hook, body),
                by=by,
                channel=self.channel,
                seen=body.get("seen"),
                note=key.note if key else None,
            )
        except HookAlreadyReceivedError:
            if not self._is_repeated(key, hook, user_id):
                raise
        answered = Hook.objects.using(write_alias()).select_related("run")
        columns = (field for field in ("public_id", "status", "answered_by_label", "settled_at", "channel"))
        return self.respond(
            answered.only(*columns, "on_timeout", "expires_at", "run__public_id").get(pk=hook.pk)
        )

    def _is_repeated(self, key: IdempotencyKey | None, hook: Hook, user_id: Any) -> bool:
        return key is not None and key.is_repeated(hook, user_id=user_id, channel=self.channel)

    def _body_for(self, hook: Hook, by: Any) -> dict[str, Any]:
        try:
            return self.body()
        except ValidationError as error:
            self._say_why_not(by, hook)
            errors = by_field(error.detail)
        raise InvalidPayloadError(sentence(errors), errors=errors)

    def _say_why_not(self, by: Any, hook: Hook | None) -> None:
        """Raise why it can not be answered by them, or now; whatever they wrote."""
        if hook is None:
            return
        forbidden = None if isinstance(by, str) else not_allowed(by, hook, hook.run)
        if error := forbidden or refusal(hook, hook.run, timezone.now()):
            raise error


class DecisionView(AnswerView):
    approved: bool

    def payload_of(self, hook: Hook, body: dict[str, Any]) -> Any:
        return verdict(hook, self.request.user, approved=self.approved, comment=body["comment"])


class Approve(DecisionView):
    """Approve: the payload is {"approved": true, "comment": …, "reviewer": your name}."""

    operation = "hooks_approve"
    request_serializer = ApproveSerializer
    approved = True


class Reject(DecisionView):
    """Reject, and say why: the payload is {"approved": false, "comment": …, "reviewer": your name}."""

    operation = "hooks_reject"
    request_serializer = RejectSerializer
    approved = False


class Resume(AnswerView):
    """Answer with any payload; for hooks with a schema of their own."""

    operation = "hooks_resume"
    request_serializer = ResumeSerializer


class ResumeByToken(NamelessPath, AnswerView):
    """Answer without an account, for other systems: who has the token may answer, once."""

    operation = "resume"
    request_serializer = ResumeSerializer
    problem_statuses = (400, 404, 409, 410, 413, 415, 422, 429)
    authentication_classes = ()
    permission_classes = ()
    throttle_classes = (TokenThrottle,)
    channel = "token"

    def post(self, request: Request, token: str) -> Response:  # type: ignore[override]
        token = tokens.clean(token)
        return self.answer(find_hook(token), token, by=TOKEN_HOLDER, user_id=None)
