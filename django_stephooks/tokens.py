"""Hook tokens: the unguessable strings that name a hook to the outside.

A token is 44 letters and digits: the hook's public id, then a keyed hash of it. Nothing secret is
stored; raising the hook's token version makes all of its earlier tokens invalid.
"""

from __future__ import annotations

import string
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils.crypto import constant_time_compare, salted_hmac

from .exceptions import InvalidTokenError

# No punctuation: mail programs leave it out of a link's end.
ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_DIGITS = {character: index for index, character in enumerate(ALPHABET)}
_PART = 22  # characters that 128 bits take in base 62
LENGTH = 2 * _PART


def make_token(public_id: UUID, *, version: int, purpose: str = "resume") -> str:
    """The token of the hook with this public id; its own for each purpose and version."""
    return _make(public_id, version, purpose, settings.SECRET_KEY)


def token_id(token: Any) -> UUID:
    """The public id that a token names; InvalidTokenError for junk. `check_token` proves it."""
    if not isinstance(token, str) or not token:
        raise InvalidTokenError("There is no token here. Open the whole link from the message again.")
    if len(token) < LENGTH:
        raise InvalidTokenError(
            "This token is too short; it was cut on its way. Copy the whole link from the message."
        )
    if len(token) > LENGTH:
        raise InvalidTokenError(
            "This token is too long; something was added to it on its way. "
            "Open the link from the message again."
        )
    if not _DIGITS.keys() >= set(token):
        raise InvalidTokenError(
            "This token has characters that no token has. Open the link from the message again."
        )
    number = 0
    for character in token[:_PART]:
        number = number * 62 + _DIGITS[character]
    if number >= 1 << 128:
        raise InvalidTokenError("This token was changed on its way. Open the link from the message again.")
    return UUID(int=number)


def check_token(token: Any, public_id: UUID, *, version: int, purpose: str = "resume") -> None:
    """InvalidTokenError unless this is that hook's token, by SECRET_KEY or one of its fallbacks."""
    # Junk may hold lone surrogates, which have no bytes to compare.
    offered = token.encode("utf-8", "replace") if isinstance(token, str) else b""
    matches = False
    for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        matches |= constant_time_compare(offered, _make(public_id, version, purpose, key))
    if not matches:
        raise InvalidTokenError("This token is not valid (any more). Ask for a new link.")


def clean(token: Any) -> Any:
    """A token without what mail programs and people add to it: spaces, brackets, ".", "=3D", "%0A".

    What is not a string is left as it is, for `token_id` to refuse.
    """
    if not isinstance(token, str):
        return token
    token = token.strip().lstrip("<([{\"'")
    for mark in "=%":
        token = token.partition(mark)[0]
    return token.rstrip(" \t\r\n.,;:!?)>]}\"'")


def _make(public_id: UUID, version: int, purpose: str, key: str | bytes) -> str:
    digest = salted_hmac(
        f"django_stephooks.tokens.{purpose}",
        f"{public_id.hex}:{version}",
        secret=key,
        algorithm="sha256",
    ).digest()
    return _base62(public_id.int) + _base62(int.from_bytes(digest[:16], "big"))


def _base62(number: int) -> str:
    characters = []
    for _ in range(_PART):
        number, digit = divmod(number, 62)
        characters.append(ALPHABET[digit])
    return "".join(reversed(characters))
