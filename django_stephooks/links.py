"""Signed personal links: who a link was sent to, written into it and proved by a keyed hash.

A link token is letters and digits only: the hook's public id, whom it was sent to, and the hash.
Nothing is stored. Raising the hook's token version revokes all of its links.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.core.validators import validate_email
from django.urls import NoReverseMatch, reverse
from django.utils.crypto import constant_time_compare, salted_hmac

from .conf import app_settings
from .exceptions import InvalidTokenError, LinkRevokedError
from .tokens import ALPHABET

if TYPE_CHECKING:
    from .models import Hook

URL_NAME = "django_stephooks:review"

_DIGITS = {character: index for index, character in enumerate(ALPHABET)}
_PART = 22  # characters that 128 bits take in base 62
_MAX_LENGTH = 600
_MAX_TEXT = 8000
# How many revoked generations of a hook's links are still told from junk.
_REMEMBERED = 20
_TOKEN = re.compile(rf"[A-Za-z0-9]{{{2 * _PART + 2},{_MAX_LENGTH}}}")
# A line break in the middle, with the "=" of quoted-printable or without.
_BREAK = re.compile(r"=?\s+")


@dataclass(frozen=True, kw_only=True)
class Link:
    """What a link token says: the hook's public id, the address it was sent to, and whose that was.

    `user_id`: the primary key, as text, of the account it was made for; "" for a bare address.
    `token` gives the right to answer, so it is not in the repr.
    """

    public_id: UUID
    recipient: str
    user_id: str = ""
    token: str = field(default="", repr=False)


def normal_address(address: Any) -> str:
    """An e-mail address as links hold it: its domain in lower case. ValueError if it is none."""
    text = str(address).strip()
    try:
        validate_email(text)
        # Django allows quoted spaces and control characters, which no list of people has.
        if not text.isprintable() or " " in text:
            raise ValidationError("")
    except ValidationError:
        raise ValueError(f"{text!r} is not an e-mail address.") from None
    local, _, domain = text.rpartition("@")
    return f"{local}@{domain.lower()}"


def make_link_token(hook: Hook, recipient: str, *, user_id: str = "") -> str:
    """The token of the personal link to this hook for an e-mail address (and the account it is of)."""
    said = _said(hook.public_id, normal_address(recipient), user_id)
    if len(said) > _MAX_LENGTH - _PART:
        raise ValueError("This e-mail address is too long for a link.")
    return said + _mac(said, hook.token_version, settings.SECRET_KEY)


def read_link_token(text: Any) -> Link:
    """What a link token says; `check_link` proves it. InvalidTokenError for junk."""
    if not isinstance(text, str) or not _TOKEN.fullmatch(text):
        raise InvalidTokenError("This is not a whole link. Open it from the message again.")
    public_id = _number(text[:_PART])
    number = _number(text[_PART:-_PART])
    whom = number.to_bytes((number.bit_length() + 7) // 8, "big")[1:].decode("utf-8", "replace")
    recipient, _, user_id = whom.partition(" ")
    # Made again from what was read, so that there is only one way to write a link.
    if public_id >= 1 << 128 or _said(UUID(int=public_id), recipient, user_id) != text[:-_PART]:
        raise InvalidTokenError("This link was changed on its way. Open it from the message again.")
    return Link(public_id=UUID(int=public_id), recipient=recipient, user_id=user_id, token=text)


def check_link(hook: Hook, link: Link) -> None:
    """InvalidTokenError unless this link to the hook was signed with SECRET_KEY or one of its fallbacks.

    LinkRevokedError if it was, and was revoked since.
    """
    if link.public_id == hook.public_id:
        oldest = max(hook.token_version - _REMEMBERED, 1)
        for version in range(hook.token_version, oldest - 1, -1):
            if _is_signed(link.token, version):
                if version == hook.token_version:
                    return
                raise LinkRevokedError
    raise InvalidTokenError("This link is not valid (any more). Ask for a new one.")


def found_in(text: str) -> list[Link]:
    """The links that may be meant by what a mail program made of one.

    It may have added punctuation, "=3D", "%0A" or a line break, or have wrapped the whole address.
    """
    unwrapped = unquote(unquote(text[:_MAX_TEXT])).replace("=3D", "=")
    found: dict[str, Link] = {}
    for reading in (text[:_MAX_TEXT], unwrapped, _BREAK.sub("", unwrapped)):
        for candidate in _TOKEN.findall(reading):
            with contextlib.suppress(InvalidTokenError):
                found[candidate] = read_link_token(candidate)
    return list(found.values())[:3]


def link_url(hook: Hook, recipient: str, *, user_id: str = "") -> str:
    """The whole address of a personal link; ImproperlyConfigured if this site has none to give."""
    base = base_url()
    try:
        path = reverse(URL_NAME, args=[make_link_token(hook, recipient, user_id=user_id)])
    except NoReverseMatch:
        raise ImproperlyConfigured(
            "There is no page for review links: add "
            'path("review/", include("django_stephooks.review.urls")) to the URLconf.'
        ) from None
    return base + path


def base_url() -> str:
    """Where this site is reached: "https://www.example.com", without a slash at the end."""
    if base := str(app_settings.BASE_URL or ""):
        parts = urlsplit(base)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ImproperlyConfigured(
                f"STEPHOOKS['BASE_URL'] is {base!r}; it must be like 'https://www.example.com'."
            )
        return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    if apps.is_installed("django.contrib.sites"):
        from django.contrib.sites.models import Site

        try:
            return f"https://{Site.objects.get_current().domain}"
        except Site.DoesNotExist:
            raise ImproperlyConfigured("There is no Site with the number that SITE_ID names.") from None
    raise ImproperlyConfigured(
        "Links in mail need the site's address: set STEPHOOKS['BASE_URL'] to something like "
        "'https://www.example.com' (or install django.contrib.sites)."
    )


def _said(public_id: UUID, recipient: str, user_id: str) -> str:
    """What a link says, without the proof."""
    # A byte in front of the text, so that the number keeps its length.
    whom = b"\x01" + f"{recipient} {user_id}".strip().encode()
    return _base62(public_id.int).rjust(_PART, ALPHABET[0]) + _base62(int.from_bytes(whom, "big"))


def _is_signed(token: str, version: int) -> bool:
    said, offered, matches = token[:-_PART], token[-_PART:], False
    for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        matches |= constant_time_compare(offered, _mac(said, version, key))
    return matches


def _mac(said: str, version: int, key: str | bytes) -> str:
    digest = salted_hmac(
        "django_stephooks.tokens.link", f"{said}:{version}", secret=key, algorithm="sha256"
    ).digest()
    return _base62(int.from_bytes(digest[:16], "big")).rjust(_PART, ALPHABET[0])


def _base62(number: int) -> str:
    characters = []
    while number:
        number, digit = divmod(number, 62)
        characters.append(ALPHABET[digit])
    return "".join(reversed(characters))


def _number(text: str) -> int:
    number = 0
    for character in text:
        number = number * 62 + _DIGITS[character]
    return number
