"""What a workflow or step calls while it runs: step_hook, the checkpoint functions, once, sleep.

Whatever needs models is imported late: a module with workflows may be imported before models may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from .durations import parse_duration
from .engine.driving import Durable, drive, refuse_event_loop
from .engine.frames import require_frame

T = TypeVar("T")

ON_TIMEOUT = ("raise", "return", "suspend")


def step_hook(
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
) -> Any:
    """Ask a person, hold no worker while waiting, and return the answer.

    The step stops here and runs again from the top when somebody calls `resume_hook` with the
    token; then this returns the payload: plain JSON, or what `payload_schema` (a pydantic model or
    a Django Form class) makes of it.

    `timeout`: "24h", "7d", "1h30m", seconds, or a timedelta, counted from when the hook is made.
    `on_timeout`: "raise" HookTimeoutError, "return" STEP_HOOK_TIMEOUT, or "suspend": go on waiting.
    `on_created(token)` tells people; it is called once, and again only if it failed or was killed.
    `key` names the hook where the order of calls is not the same each time.
    `title`, `description`, `context` (shown to the reviewer) and `reviewers` (users, groups, e-mail
    addresses) are for the review desk.

    ValueError or TypeError for nonsense, NotInRunError outside a run.
    """
    durable = prepare_hook(
        name,
        timeout,
        on_created,
        on_timeout,
        payload_schema,
        key,
        title,
        description,
        context,
        reviewers,
    )
    return drive(durable, "step_hook")


def prepare_hook(
    name: str,
    timeout: Any,
    on_created: Callable[[str], Any] | None,
    on_timeout: str,
    payload_schema: Any,
    key: str | None,
    title: str,
    description: str,
    context: Any,
    reviewers: Iterable[Any],
) -> Durable[Any]:
    frame = require_frame("step_hook")
    from . import codec
    from .engine import calls
    from .models import Hook
    from .models.fields import Encoded
    from .payloads import schema_path
    from .texts import plain_text

    if on_timeout not in ON_TIMEOUT:
        raise ValueError(f"on_timeout={on_timeout!r} is not known: give 'raise', 'return' or 'suspend'.")
    if on_created is not None and not callable(on_created):
        raise TypeError(f"on_created={on_created!r} can not be called: give a function that takes the token.")
    hook = Hook(
        name=checked_name(name, "hook name"),
        on_timeout=on_timeout,
        title=plain_text(title, "title", max_length=500),
        description=plain_text(description, "description"),
        context=None if context is None else Encoded(codec.dumps(context, root="context")),
        reviewers=[reviewer_name(reviewer) for reviewer in reviewers] or None,
        schema=schema_path(payload_schema),
    )
    return calls.ask(
        frame,
        hook,
        key=None if key is None else checked_name(key, "key"),
        timeout=None if timeout is None else parse_duration(timeout),
        on_created=on_created,
        payload_schema=payload_schema,
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


def save_step_checkpoint(data: Any) -> None:
    """Store this step's state, so that it finds it when it runs again. Overwrites; stored when this returns.

    SerializationError, naming the path, for what can not be stored; at most MAX_CHECKPOINT_BYTES.
    """
    from .engine import calls

    frame = require_frame("save_step_checkpoint")
    refuse_event_loop("save_step_checkpoint")
    calls.save_checkpoint(frame, data)


def load_step_checkpoint() -> Any:
    """What this step saved last, as a copy of its own; None if there is nothing."""
    from .engine import calls

    frame = require_frame("load_step_checkpoint")
    refuse_event_loop("load_step_checkpoint")
    return calls.load_checkpoint(frame)


def delete_step_checkpoint() -> None:
    """Forget this step's state: at once for the step, in the database together with its next event.

    A step's checkpoint is deleted when it completes, so this is rarely needed.
    """
    from .engine import calls

    calls.delete_checkpoint(require_frame("delete_step_checkpoint"))


def once(key: str, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call the function and record its result; when the step runs again, return what was recorded.

    For what must not happen twice although a step is run again: charging a card, posting to an API.
    `key` is this step call's own. A function that raises is not recorded. If the process is killed
    while the function works, nobody can know whether it did its work, and it is called again:
    give the other side an idempotency key too.
    """
    from .engine import calls

    frame = require_frame("once")
    return drive(calls.run_once(frame, checked_name(key, "key"), function, args, kwargs), "once")  # type: ignore[no-any-return]


def sleep(duration: Any) -> None:
    """Wait ("1h", seconds, a timedelta) without a worker, counted from when the code first comes here."""
    from .engine import calls

    frame = require_frame("sleep")
    calls.wait_until_due(frame, parse_duration(duration, name="sleep"))
