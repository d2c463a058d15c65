"""Personal links: sending them, revoking them, and what whoever opens one may do.

A link sent to an *address* is itself the permission to answer, as if the address were a reviewer
without an account. A link sent to a *user* (alone or with a group) lets that user do what they may
do when logged in, and no more. Either is refused once the account of the address is not active.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db.models.functions import Lower
from django.utils import timezone

from django_stephooks.conf import app_settings
from django_stephooks.exceptions import FatalError, InvalidTokenError, NotAllowedError, RunStateError
from django_stephooks.links import Link, base_url, check_link, found_in, normal_address
from django_stephooks.models import Event, Hook, Run
from django_stephooks.models.statements import statements
from django_stephooks.models.transactions import transact, write_alias

from .actors import actor_from
from .rules import REVIEW, has_permission, is_user, not_allowed, refusal
from .runs import start

# The workflow, in the package's own workflows.py, that mails one link to one recipient.
SEND = "stephooks.send_review_mail"

_MAX_LABEL = 200


@dataclass(frozen=True, kw_only=True, order=True)
class Recipient:
    """An address to send a link to; `user_id` is whose it is, "" if the address itself was given."""

    address: str
    user_id: str = ""


@dataclass(frozen=True, kw_only=True)
class Addressee:
    """Whoever a link was sent to, asked of the rule book like a user and stored as who answered."""

    address: str
    account: Any = None
    is_active: bool = True
    invited: bool = False

    @property
    def label(self) -> str:
        text = f"link sent to {self.address}"
        return text if len(text) <= _MAX_LABEL else f"{text[: _MAX_LABEL - 1]}…"

    @property
    def is_authenticated(self) -> bool:
        # Nobody logged in: the answer is not stored as that account's. An account that is not
        # active is not told to log in.
        return not self.is_active

    @property
    def pk(self) -> Any:
        # Not None, which is who started a run that nobody started.
        return self.account.pk if self.account else ""

    @property
    def groups(self) -> Any:
        if self.account and self.is_active and hasattr(self.account, "groups"):
            return self.account.groups
        return Group.objects.none()

    @property
    def email(self) -> str:
        return self.address

    def get_username(self) -> str:
        return self.label

    def get_email_field_name(self) -> str:
        return "email"

    def has_perm(self, permission: str, thing: Any = None) -> bool:
        if self.invited and permission == REVIEW:
            return True
        return bool(self.account and self.account.has_perm(permission, thing))


def open_link(text: str) -> tuple[Hook, Link]:
    """The hook and the link that what stood in the address means, tidied of what mail programs add.

    InvalidTokenError (404) for junk, LinkRevokedError (410).
    """
    error = InvalidTokenError("This is not a whole link. Open it from the message again.")
    for link in found_in(text):
        hooks = Hook.objects.using(write_alias()).select_related("run__started_by")
        hook = hooks.filter(public_id=link.public_id).first()
        if hook is None:
            continue
        try:
            check_link(hook, link)
        except InvalidTokenError as refused:
            error = refused
        else:
            return hook, link
    raise error


def addressee_of(hook: Hook, *, address: str, user_id: str = "") -> Addressee:
    """Who this address is, for the question whether they may answer this hook."""
    accounts = _accounts(address, user_id)
    starter = hook.run.started_by
    if starter is not None and (starter in accounts or _folded(email_of(starter)) == _folded(address)):
        accounts = [starter]
    if user_id:
        account = accounts[0] if accounts else None
        return Addressee(address=address, account=account, is_active=_is_active(account))
    if not accounts:
        return Addressee(address=address, invited=True)
    # Several accounts may share an address: one that may answer is enough.
    found = [
        Addressee(address=address, account=account, is_active=_is_active(account), invited=True)
        for account in accounts
    ]
    return next((one for one in found if not not_allowed(one, hook, hook.run)), found[0])


def _accounts(address: str, user_id: str) -> list[Any]:
    User = get_user_model()
    if user_id:
        try:
            return list(User._default_manager.filter(pk=user_id))
        except (ValueError, ValidationError):
            return []  # a key of another kind: the site has changed its user model
    # Not `iexact`: on MySQL and MariaDB that is as exact as the column's collation.
    users = User._default_manager.alias(its_address=Lower(User.get_email_field_name()))
    return list(users.filter(its_address=address.lower()).order_by("pk"))


def _is_active(account: Any) -> bool:
    return bool(account and account.is_active)


def _folded(address: str) -> str:
    return address.strip().casefold()


def email_of(user: Any) -> str:
    return str(getattr(user, type(user).get_email_field_name(), "") or "")


def recipients_from(given: Iterable[Any]) -> list[Recipient]:
    """Addresses, users and groups as recipients: each address once, groups by their active members.

    Users who are not active or have no address are left out. TypeError or ValueError for nonsense.
    """
    found: dict[str, Recipient] = {}
    for one in given:
        if isinstance(one, str):
            found.setdefault(_folded(one), Recipient(address=normal_address(one)))
            continue
        for user in _users(one):
            try:
                address = normal_address(email_of(user))
            except ValueError:
                continue
            if user.is_active:
                found.setdefault(_folded(address), Recipient(address=address, user_id=str(user.pk)))
    return list(found.values())


def _users(one: Any) -> list[Any]:
    if isinstance(one, Group):
        User = get_user_model()
        return list(User._default_manager.filter(groups=one, is_active=True).order_by("pk"))
    if hasattr(one, "get_username") and one.pk is not None:
        # As the account is now; the object may be as old as the run.
        return list(type(one)._default_manager.filter(pk=one.pk))
    raise TypeError(f"{one!r} can not be mailed: give e-mail addresses, users, or groups.")


def send_links(hook: Hook, given: Iterable[Any]) -> list[Run]:
    """Start one run for each recipient that mails them their link, and return these runs.

    A second call finds the runs of the first one. FatalError if that is nobody,
    or nobody who may answer; ImproperlyConfigured if this site has no address to link to.
    """
    base_url()
    recipients = recipients_from(given)
    if not recipients:
        raise FatalError(
            f"Nobody can be mailed about hook {hook.name!r} of run {hook.run_id}: among the recipients is "
            "neither an address nor an active user who has one."
        )
    refused = [
        not_allowed(addressee_of(hook, address=one.address, user_id=one.user_id), hook, hook.run)
        for one in recipients
    ]
    if all(refused):
        raise FatalError(
            f"Nobody of those to be mailed may answer. {' '.join(str(error) for error in refused)}"
        )
    return _start(hook, recipients, "invite", None)


@transact
def _start(hook: Hook, recipients: Iterable[Recipient], kind: str, by: Any) -> list[Run]:
    # In the order of their addresses: two who do this at once wait for each other in one order.
    return [
        start(
            SEND,
            {
                "hook_id": hook.pk,
                "recipient": one.address,
                "kind": kind,
                "user_id": one.user_id,
                "version": hook.token_version,
            },
            queue=app_settings.MAIL_QUEUE or None,
            key=_key(hook, kind, one),
            started_by=by if is_user(by) else None,
        )
        for one in sorted(recipients)
    ]


def _key(hook: Hook, kind: str, recipient: Recipient) -> str:
    digest = hashlib.sha256(_folded(recipient.address).encode()).hexdigest()[:32]
    return f"{hook.public_id}:{kind}:{digest}"


def mail_runs(hook: Hook) -> Any:
    """The runs that mail (or have mailed) links to this hook, oldest first."""
    runs = Run.objects.using(write_alias()).filter(workflow=SEND, key__startswith=f"{hook.public_id}:")
    # The bounds are for the index, which few databases use for LIKE; letters, because some collations
    # do not look at a colon.
    bounds = {"key__gte": str(hook.public_id), "key__lt": f"{hook.public_id}zz"}
    return runs.filter(**bounds).order_by("pk")


def send_new_links(hook: Hook, *, by: Any = None) -> list[Run]:
    """Revoke all links to this hook, and mail new ones to whoever was mailed one before.

    `by`: a user, who needs the permission to answer hooks, or a string that says who.
    NotAllowedError; HookAlreadyReceivedError, HookExpiredError, HookCancelledError if nobody can
    answer any more; RunStateError if nobody was mailed.
    """
    return _renew(hook.pk, hook.run_id, by)


def revoke_links(hook: Hook, *, by: Any = None) -> None:
    """Make all links to this hook, and its token, invalid. `by` and errors as for `send_new_links`."""
    _revoke(hook.pk, hook.run_id, by, again=0)


@transact
def _renew(pk: int, run_id: int, by: Any) -> list[Run]:
    earlier = Hook.objects.using(write_alias()).get(pk=pk)
    mailed = (run.arguments for run in mail_runs(earlier))
    recipients = {
        _folded(data["recipient"]): Recipient(address=data["recipient"], user_id=data["user_id"])
        for data in mailed
    }
    if not recipients:
        raise RunStateError(f"Nobody was mailed a link to hook {earlier.name!r} of run {run_id}.")
    hook = _revoke(pk, run_id, by, again=len(recipients))
    return _start(hook, recipients.values(), f"again-{hook.token_version}", by)


@transact
def _revoke(pk: int, run_id: int, by: Any, *, again: int) -> Hook:
    now = timezone.now()
    alias = write_alias()
    run, hook = statements(alias).lock(run_id, pk)
    if is_user(by) and not (by.is_active and has_permission(by, REVIEW, hook)):
        raise NotAllowedError(f"{by.get_username()} may not revoke links: that takes {REVIEW}.")
    if refused := refusal(hook, run, now):
        raise refused
    Hook.objects.using(alias).filter(pk=pk).revoke_tokens()
    actor = actor_from(by)
    data = {"by": actor.label, "by_id": actor.user_id, "sent_again": again}
    revoked = Event(run=run, type=Event.Type.LINKS_REVOKED, call=hook.call, data=data, created_at=now)
    Event.objects.using(write_alias()).record(revoked)
    hook.refresh_from_db()
    return hook
