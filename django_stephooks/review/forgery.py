"""Why no other site can answer in somebody's name, although the link page needs no cookie.

Django's protection compares a form field with a cookie. A link is opened from a mail program, often
in a browser of its own that keeps no cookies, so the page can not ask for one, and is `csrf_exempt`.
What keeps a form on another site from deciding:

- The address it would have to post to holds the link's signature. Whoever does not know the link
  can not make the form, and whoever knows it could answer without any trick.
- With LINK_REQUIRES_LOGIN the link is only half of the authority, and the browser adds the other
  half, the session, by itself. There a forged form is worth something to whoever found a link. So
  the form carries a field, signed for this link, this user, and what the page showed; it is
  only handed out on the page itself, which another site can not read.
- The browser says where a form was sent from, in `Origin` or `Referer`. If either is there, it must
  be this site; a form that was sent from a sandbox or across a redirect ("null") is refused too.
  Both may be missing: some people's browsers and proxies leave them out.
- The page can not be framed, so nobody is led to press its buttons.

Our own pages say `Referrer-Policy: same-origin`: with `no-referrer` browsers would send
"Origin: null" from them.
"""

from __future__ import annotations

import contextlib
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signing import BadSignature, Signer
from django.http import HttpRequest
from django.utils.http import is_same_domain

from django_stephooks.links import Link, base_url


def is_from_elsewhere(request: HttpRequest) -> bool:
    """Whether the browser says that this form was sent from another site."""
    source = request.META.get("HTTP_ORIGIN") or request.META.get("HTTP_REFERER")
    if not source:
        return False
    try:
        origin = _origin(source)
    except ValueError:
        return True
    return not (origin in _own_origins(request) or _is_trusted(origin))


def _origin(url: str) -> tuple[str, str]:
    """Scheme and host; without the port that the scheme has anyway."""
    parts = urlsplit(url.lower())
    standard = {"http": ":80", "https": ":443"}.get(parts.scheme)
    if not standard or not parts.netloc:
        raise ValueError("no web address")
    return parts.scheme, parts.netloc.removesuffix(standard)


def _own_origins(request: HttpRequest) -> set[tuple[str, str]]:
    origins = {_origin(f"{request.scheme}://{request.get_host()}")}
    with contextlib.suppress(ImproperlyConfigured):
        # Behind a proxy that ends TLS and does not say so, the request looks like plain HTTP.
        origins.add(_origin(base_url()))
    return origins


def _is_trusted(origin: tuple[str, str]) -> bool:
    scheme, host = origin
    for trusted in settings.CSRF_TRUSTED_ORIGINS:
        parts = urlsplit(trusted.lower())
        if parts.scheme == scheme and is_same_domain(host, parts.netloc.lstrip("*")):
            return True
    return False


def make_stamp(link: Link, user: Any, seen: str) -> str:
    """The signed field of the form: this link's, this user's, and the digest of what was shown."""
    return _signer(link, user).sign(seen)


def read_stamp(stamp: Any, link: Link, user: Any) -> str | None:
    """The digest in a form's field; None if the page of this link did not make it for this user."""
    try:
        return _signer(link, user).unsign(str(stamp))
    except BadSignature:
        return None


def _signer(link: Link, user: Any) -> Signer:
    return Signer(salt=f"django_stephooks.review.form:{link.token}:{getattr(user, 'pk', None)}")
