"""Mail that asks a reviewer: `email_reviewers` for `on_created`, and the message with the personal link.

Each recipient's mail is sent by a run of its own (`workflows.send_review_mail`), so a slow mail
server never holds the run that asks, and a refused address keeps nobody else from their mail.

Whatever needs models is imported late: a module with workflows may be imported before models may.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from email.utils import make_msgid
from typing import Any
from urllib.parse import urlsplit

from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string
from django.utils import timezone

from .codec import printable
from .links import base_url, link_url, normal_address

TEMPLATES = "django_stephooks/mail"

# Mail programs show less than this of a subject.
MAX_TITLE = 90


@dataclass(frozen=True, kw_only=True)
class EmailReviewers:
    """An `on_created`: mails each recipient a personal link to the hook. Made by `email_reviewers`."""

    recipients: tuple[Any, ...]

    def __call__(self, token: str) -> None:
        from .services.hooks import find_hook
        from .services.links import send_links

        send_links(find_hook(token), self.recipients)


def email_reviewers(recipients: Iterable[Any]) -> EmailReviewers:
    """For `step_hook(on_created=…)`: mail each of these a link of their own to answer the hook by.

    `recipients`: e-mail addresses, users, and groups (their active members). Each gets one mail for
    each hook, whatever is replayed.

    TypeError or ValueError for what can not be mailed. When the hook is made: FatalError if nobody
    among them can be reached or may answer, ImproperlyConfigured if the site has no address.
    """
    if isinstance(recipients, str):
        raise TypeError(f"email_reviewers() takes a list of recipients, not the string {recipients!r}.")
    return EmailReviewers(recipients=tuple(_checked(one) for one in recipients))


def _checked(recipient: Any) -> Any:
    if isinstance(recipient, str):
        return normal_address(recipient)
    if getattr(recipient, "pk", None) is None:
        raise TypeError(f"{recipient!r} can not be mailed: give e-mail addresses, users, or groups.")
    return recipient


def review_mail(
    hook_id: int, recipient: str, *, kind: str, user_id: str, version: int
) -> EmailMultiAlternatives | str:
    """The message; or the reason why it is not to be sent (any more)."""
    from .models import Hook
    from .models.transactions import write_alias
    from .services.links import addressee_of
    from .services.rules import not_allowed, refusal

    hooks = Hook.objects.using(write_alias()).select_related("run", "run__started_by")
    hook = hooks.filter(pk=hook_id).first()
    if hook is None:
        return "The hook does not exist any more."
    addressee = addressee_of(hook, address=recipient, user_id=user_id)
    if refused := not_allowed(addressee, hook, hook.run) or refusal(hook, hook.run, timezone.now()):
        return str(refused)
    if hook.token_version != version:
        return "The links of this hook were revoked before this one was sent."
    run = hook.run
    context = {
        "hook": hook,
        "title": printable(str(hook)),
        "short_title": _one_line(str(hook), MAX_TITLE),
        "description": printable(hook.description),
        "workflow": printable(run.label),
        "started_by": printable(run.started_by.get_username()) if run.started_by else "",
        "deadline": hook.expires_at,
        "recipient": recipient,
        "url": link_url(hook, recipient, user_id=user_id),
        "is_renewed": kind != "invite",
    }
    message = EmailMultiAlternatives(
        subject=_one_line(render_to_string(f"{TEMPLATES}/review_subject.txt", context)),
        body=render_to_string(f"{TEMPLATES}/review.txt", context).strip() + "\n",
        to=[recipient],
        headers={
            # RFC 3834, and Exchange's own word for it: no absence note shall come back.
            "Auto-Submitted": "auto-generated",
            "X-Auto-Response-Suppress": "All",
            # Not with this machine's name, which Django may ask the network for.
            "Message-ID": make_msgid(domain=_domain()),
        },
    )
    message.attach_alternative(render_to_string(f"{TEMPLATES}/review.html", context), "text/html")
    return message


def _one_line(text: str, most: int | None = None) -> str:
    """The text as it may stand in a header: without line breaks and other control characters."""
    breaks = ("Cc", "Zl", "Zp")
    spaced = (" " if unicodedata.category(one) in breaks else one for one in printable(text))
    line = " ".join("".join(spaced).split())
    return line if most is None or len(line) <= most else f"{line[: most - 1].rstrip()}…"


def _domain() -> str:
    host = urlsplit(base_url()).hostname or ""
    try:
        return host.encode("idna").decode() or "localhost"
    except UnicodeError:
        return "localhost"
