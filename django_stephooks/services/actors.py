"""Who did it: from what callers pass as `by=` to what the journal keeps."""

from __future__ import annotations

from typing import Any

from django_stephooks.texts import plain_text
from django_stephooks.types import Actor


def actor_from(by: Any) -> Actor:
    """`by`: a user, a string such as "link sent to dana@example.com", an Actor, or None."""
    if by is None:
        return Actor()
    if isinstance(by, Actor):
        return by
    if isinstance(by, str):
        return Actor(label=plain_text(by, "by", max_length=200))
    if hasattr(by, "get_username"):
        user_id = by.pk if by.is_authenticated else None
        return Actor(user_id=user_id, label=plain_text(by.get_username(), "by", max_length=200))
    raise TypeError(f"by={by!r} is nobody: pass a user, or a string that says who it was.")
