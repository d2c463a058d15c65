"""What a workflow or step calls while it runs: step_hook and its like, the checkpoint functions, once, sleep.

Whatever needs models is imported late: a module with workflows may be imported before models may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from .durations import parse_duration
from .engine.driving import drive, refuse_event_loop
from .engine.frames import require_frame
from .questions import Question, checked_name, question

T = TypeVar("T")


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
    frame = require_frame("step_hook")
    asked = question(
        name,
        timeout=timeout,
        on_created=on_created,
        on_timeout=on_timeout,
        payload_schema=payload_schema,
        key=key,
        title=title,
        description=description,
        context=context,
        reviewers=reviewers,
    )
    from .engine import asking

    return drive(asking.ask_one(frame, asked), "step_hook")


def wait_all(*questions: Question) -> list[Any]:
    """Ask several people at once, hold no worker while waiting, and return all answers, in this order.

    All questions are stored together, then each one's `on_created` is called. Each answer is what
    `step_hook` would return. If the deadline of one with `on_timeout="raise"` passes, HookTimeoutError
    is raised, but only when the others are answered too, or their deadlines have passed.
    """
    from .engine import asking

    return drive(asking.ask_all(require_frame("wait_all"), questions), "wait_all")


def wait_first(*questions: Question) -> tuple[Question, Any]:
    """Ask several people at once, and return the question that was answered first, and its answer.

    The moment that one is answered, the others are cancelled: they can not be answered any more.
    Whoever lets a deadline pass drops out. If all do, this raises HookTimeoutError for the first
    question that says so; if none does, it returns the first question and STEP_HOOK_TIMEOUT.
    """
    from .engine import asking

    return drive(asking.ask_first(require_frame("wait_first"), questions), "wait_first")


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
