"""How many requests one user or address may make, by scope: STEPHOOKS["API_THROTTLES"].

The defaults hold although a project sets no rates of REST framework's. The count is kept in the
default cache; while that is down nobody is refused.
"""

from __future__ import annotations

import hashlib
import logging
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from rest_framework.request import Request
from rest_framework.settings import api_settings
from rest_framework.throttling import SimpleRateThrottle

from django_stephooks.conf import DEFAULTS, app_settings
from django_stephooks.review.throttle import parse_rate

logger = logging.getLogger("django_stephooks")


class ScopeThrottle(SimpleRateThrottle):
    """One scope; a project may set some of the rates and leave the others."""

    scope = ""

    def get_rate(self) -> str | None:
        rates: dict[str, str | None] = {**DEFAULTS["API_THROTTLES"], **app_settings.API_THROTTLES}
        return rates[self.scope]

    def parse_rate(self, rate: str | None) -> Any:
        try:
            return parse_rate(rate) or (None, None)
        except ValueError as error:
            raise ImproperlyConfigured(f"API_THROTTLES, {self.scope}: {error}") from None

    def allow_request(self, request: Request, view: Any) -> bool:
        try:
            return super().allow_request(request, view)
        except Exception:
            # Whatever a cache raises: an answer is worth more than the count of requests.
            logger.exception("Requests are not counted: the cache failed.")
            return True

    def get_ident(self, request: Request) -> str:
        """The address. X-Forwarded-For, which anybody can write, counts only as far as NUM_PROXIES says."""
        if api_settings.NUM_PROXIES is None:
            return str(request.META.get("REMOTE_ADDR"))
        return str(super().get_ident(request))

    def get_cache_key(self, request: Request, view: Any) -> str:
        user = request.user
        who = f"user:{user.pk}" if user.is_authenticated else f"address:{self.get_ident(request)}"
        # Hashed: what came in a header may be too long for a key, or have characters that none takes.
        ident = hashlib.sha256(who.encode("utf-8", "replace")).hexdigest()[:32]
        return self.cache_format % {"scope": self.scope, "ident": ident}


class ReadThrottle(ScopeThrottle):
    scope = "stephooks-read"


class AnswerThrottle(ScopeThrottle):
    """Answers, and everything else that changes something."""

    scope = "stephooks-answer"


class StreamThrottle(ScopeThrottle):
    scope = "stephooks-stream"


class TokenThrottle(ScopeThrottle):
    scope = "stephooks-token"
