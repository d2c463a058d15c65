"""resume_hook: the one door through which every answer comes, whatever face it was given on."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils import timezone

from django_stephooks import codec, observers, payloads, signals, tokens
from django_stephooks.conf import app_settings
from django_stephooks.exceptions import (
    HookChangedError,
    HookExpiredError,
    HookNotFoundError,
    StepHooksError,
)
from django_stephooks.models import Event, Hook, Run
from django_stephooks.models.fields import Encoded
from django_stephooks.models.hook import received
from django_stephooks.models.statements import Entry, statements, tell
from django_stephooks.models.transactions import transact, write_alias
from django_stephooks.runtimes.base import ring_after_commit
from django_stephooks.texts import plain_text
from django_stephooks.types import Actor, ResumeResult

from .actors import actor_from
from .digest import digest_of
from .rules import is_user, not_allowed, refusal


def resume_hook(
    token: str,
    payload: Any = None,
    *,
    by: Any = None,
    channel: str = "python",
    seen: str | None = None,
    note: dict[str, Any] | None = None,
) -> ResumeResult:
    """Answer a hook: store the payload, once, and make its run go on.

    `payload` is plain JSON of at most MAX_PAYLOAD_BYTES; with a `payload_schema` it must fit it.
    `by`: a user, who must be allowed to answer (services.rules), or a string that says who.
    `channel`: how it came ("admin", "link", "api", …). `seen`: the digest (services.digest) of what the
    answer was given to. `note`: small facts for the journal, such as the link's address.

    InvalidTokenError, HookNotFoundError; NotAllowedError; HookAlreadyReceivedError (carries the hook
    with the answer that stands), HookExpiredError, HookCancelledError; HookChangedError,
    InvalidPayloadError (nothing is used up).
    """
    hook = find_hook(token)
    text = codec.dumps_plain(
        payload,
        root="payload",
        max_bytes=app_settings.MAX_PAYLOAD_BYTES,
        setting="MAX_PAYLOAD_BYTES",
    )
    actor = actor_from(by)
    channel = plain_text(channel, "channel", max_length=20)
    facts = {**(note or {}), "by": actor.label, "by_id": actor.user_id, "channel": channel}
    if seen is not None:
        facts["seen"] = seen
    refused = _receive(hook, payload, text, by, actor, facts)
    if refused is not None:
        raise refused
    return ResumeResult(run_id=hook.run_id, hook_id=hook.pk, status=Hook.Status.RECEIVED.value)


def find_hook(token: str) -> Hook:
    """The hook that this token names; InvalidTokenError for junk, HookNotFoundError if it is gone."""
    public_id = tokens.token_id(token)
    hook = statements(write_alias()).hook(public_id)
    # Checked against the row's own version, so that a revoked token is junk at once.
    version = hook.token_version if hook else 1
    tokens.check_token(token, public_id, version=version, purpose="resume")
    if hook is None:
        raise HookNotFoundError("The hook that this token names does not exist any more.")
    return hook


@transact
def _receive(
    hook: Hook, payload: Any, text: str, by: Any, actor: Actor, facts: dict[str, Any]
) -> StepHooksError | None:
    """Under the run's lock. Why it is refused is returned, so that what was found out is committed."""
    now = timezone.now()
    alias = write_alias()
    run, locked = statements(alias).lock(hook.run_id, hook.pk)
    if is_user(by) and (forbidden := not_allowed(by, locked, run)):
        return forbidden
    if refused := refusal(locked, run, now):
        if isinstance(refused, HookExpiredError):
            expire_hooks(Hook.objects.using(alias).filter(pk=locked.pk), now=now)
        return refused
    if "seen" in facts and facts["seen"] != digest_of(locked):
        return HookChangedError(hook=locked)
    # Checked last: whoever comes too late is told so, whatever they wrote.
    if locked.schema:
        payloads.validate(payloads.load_schema(locked.schema), payload)
    columns = received(Encoded(text), by=actor.user_id, label=actor.label, channel=facts["channel"], now=now)
    # A turn at work on the run sees the answer itself, at the latest when it settles.
    entry = Entry(Event.Type.HOOK_RECEIVED, locked.call, {**facts, **observers.carried()}, now)
    statements(alias).receive(locked, columns, entry)
    tell(run, [entry], using=alias)
    if locked.race is not None:
        _end_race(locked, by=actor.label, now=now)
    ring_after_commit(run.queue, using=alias)
    signals.send_after_commit(signals.hook_received, Hook, using=alias, hook=locked)
    return None


def _end_race(first: Hook, *, by: str, now: datetime) -> None:
    """Those that were asked at the same time are asked no longer. The caller holds the run's row."""
    others = Hook.objects.using(write_alias()).racing_with(first)
    expire_hooks(others, now=now)
    for hook in others.lose_to(first, by=by, now=now):
        signals.send_after_commit(signals.hook_cancelled, Hook, using=others.db, hook=hook)


def expire_hooks(hooks: Any, *, now: datetime) -> list[Hook]:
    """Settle those past their deadline and make their runs ready. The caller holds the runs' rows."""
    expired: list[Hook] = hooks.expire(now=now)
    if expired:
        runs = Run.objects.using(hooks.db).filter(pk__in={hook.run_id for hook in expired})
        runs.make_ready(now)
        for queue in sorted(set(runs.values_list("queue", flat=True))):
            ring_after_commit(queue, using=hooks.db)
        for hook in expired:
            signals.send_after_commit(signals.hook_expired, Hook, using=hooks.db, hook=hook)
    return expired
