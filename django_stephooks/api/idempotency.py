"""`Idempotency-Key`: the same answer sent again gets the same reply; another one with its key does not.

The key and a digest of the body are written to the journal together with the answer, in the same
transaction, so there is no moment at which one is known and the other is not.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

from django_stephooks.exceptions import SerializationError
from django_stephooks.models import Event, Hook
from django_stephooks.models.transactions import write_alias

from .problems import IdempotencyKeyReusedError

HEADER = "Idempotency-Key"
MAX_LENGTH = 200
NOTE = "idempotency"


@dataclass(frozen=True, kw_only=True)
class IdempotencyKey:
    key: str
    digest: str

    @property
    def note(self) -> dict[str, Any]:
        return {NOTE: {"key": self.key, "digest": self.digest}}

    def is_repeated(self, hook: Hook, *, user_id: Any, channel: str) -> bool:
        """Whether the hook's answer came with this key, from the same user through the same door.

        IdempotencyKeyReusedError if it did, but with another body.
        """
        events = Event.objects.using(write_alias())
        event = (
            events.filter(run_id=hook.run_id, call=hook.call, type=Event.Type.HOOK_RECEIVED)
            .order_by("-pk")
            .first()
        )
        try:
            data = event.data if event else None
        except SerializationError:
            data = None
        if not isinstance(data, dict) or not isinstance(data.get(NOTE), dict):
            return False
        if (data.get("by_id"), data.get("channel")) != (user_id, channel):
            return False
        if data[NOTE].get("key") != self.key:
            return False
        if data[NOTE].get("digest") != self.digest:
            raise IdempotencyKeyReusedError
        return True


def key_of(request: Request, operation: str) -> IdempotencyKey | None:
    """The request's key, if it has one; ValidationError for one that is none."""
    key = request.headers.get(HEADER)
    if key is None:
        return None
    if not key or len(key) > MAX_LENGTH or not (key.isascii() and key.isprintable()):
        raise ValidationError({HEADER: [f"It is 1 to {MAX_LENGTH} printable ASCII characters."]})
    # By what it says, not by its bytes: the order of members and spaces make no other answer.
    text = json.dumps([operation, request.data], sort_keys=True)
    return IdempotencyKey(key=key, digest=hashlib.sha256(text.encode("ascii")).hexdigest())
