"""Question: what `step_hook`, `wait_all` and `wait_first` ask a person, as a value.

`engine.asking` makes a hook of it when the code first comes to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from .durations import parse_duration

if TYPE_CHECKING:
    from .models import Hook

ON_TIMEOUT = ("raise", "return", "suspend")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Question:
    """A question that can be asked, of one run or of many. It is equal to itself only."""

    name: str
    timeout: timedelta | None
    on_created: Callable[[str], Any] | None
    on_timeout: str
    payload_schema: Any
    key: str | None
    title: str
    description: str
    context: Any
    reviewers: Iterable[Any]

    def __repr__(self) -> str:
        key = f", key={self.key!r}" if self.key is not None else ""
        return f"question({self.name!r}{key})"

    def hook(self) -> Hook:
        """The row that asks it, not stored yet; SerializationError for what can not be stored."""
        # Imported late: questions are made in modules that may be imported before models may.
        from . import codec
        from .models import Hook
        from .models.fields import Encoded
        from .payloads import schema_path
        from .texts import plain_text

        return Hook(
            name=self.name,
            on_timeout=self.on_timeout,
            title=plain_text(self.title, "title", max_length=500),
            description=plain_text(self.description, "description"),
            context=None if self.context is None else Encoded(codec.dumps(self.context, root="context")),
            reviewers=[reviewer_name(reviewer) for reviewer in self._people()] or None,
            schema=schema_path(self.payload_schema),
        )

    def _people(self) -> Iterable[Any]:
        from django.db.models import QuerySet

        if isinstance(self.reviewers, QuerySet):
            return self.reviewers.all()  # whoever they are now: it may be asked more than once
        if iter(self.reviewers) is self.reviewers:
            # Asked again, an iterator at its end would put the question to everybody.
            object.__setattr__(self, "reviewers", tuple(self.reviewers))
        return self.reviewers


def question(
    name: str,
    *,
    timeout: Any = None,
    on_created: Callable[[str], Any] | None = None,
    on_timeout: str = "raise",
    payload_schema: Any = None,
    key: str | None = None,
    title: str = "",
    description: str = "",
    context: Any = None,
    reviewers: Iterable[Any] = (),
) -> Question:
    """A question for `wait_all` and `wait_first`; it takes what `step_hook` takes, and asks nobody yet.

    It may be made anywhere, also once for all runs. ValueError or TypeError for nonsense; what can not
    be stored is refused when it is asked.
    """
    if on_timeout not in ON_TIMEOUT:
        raise ValueError(f"on_timeout={on_timeout!r} is not known: give 'raise', 'return' or 'suspend'.")
    if on_created is not None and not callable(on_created):
        raise TypeError(f"on_created={on_created!r} can not be called: give a function that takes the token.")
    return Question(
        name=checked_name(name, "hook name"),
        timeout=None if timeout is None else parse_duration(timeout),
        on_created=on_created,
        on_timeout=on_timeout,
        payload_schema=payload_schema,
        key=None if key is None else checked_name(key, "key"),
        title=title,
        description=description,
        context=context,
        reviewers=reviewers,
    )


def checked_name(name: Any, what: str) -> str:
    """A name that may stand in a call name; ValueError otherwise."""
    if not isinstance(name, str) or not name or len(name) > 100 or not name.isprintable() or "/" in name:
        raise ValueError(f"{name!r} can not be a {what}: give 1 to 100 printable characters, without '/'.")
    return name


def reviewer_name(reviewer: Any) -> str:
    """A user, group or address as a hook stores it: "user:5", "group:3", "email:dana@example.com"."""
    from django.contrib.auth.models import Group

    if isinstance(reviewer, str) and "@" in reviewer:
        return f"email:{reviewer.strip()}"
    if isinstance(reviewer, Group):
        return f"group:{reviewer.pk}"
    if hasattr(reviewer, "get_username") and reviewer.pk is not None:
        return f"user:{reviewer.pk}"
    raise TypeError(f"{reviewer!r} can not be a reviewer: give a user, a group, or an e-mail address.")
