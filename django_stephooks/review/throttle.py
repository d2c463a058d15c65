"""How often a link may be asked for, counted in Django's cache.

Each address on the network has a count of its own for each link, and one for all that are no
links: whoever tries out links locks out nobody else, even behind a proxy that hides addresses.
"""

from __future__ import annotations

import hashlib
import logging
import time
from typing import Any

from django.core.cache import cache
from django.http import HttpRequest

from django_stephooks.conf import app_settings

logger = logging.getLogger("django_stephooks.review")

PERIODS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_rate(rate: Any) -> tuple[int, int] | None:
    """A rate such as "60/min" as a count and a number of seconds; None for no limit."""
    if rate is None:
        return None
    count, slash, period = str(rate).partition("/")
    seconds = PERIODS.get(period.strip()[:1].lower())
    if not slash or seconds is None or not count.strip().isdecimal() or int(count) < 1:
        raise ValueError(f"{rate!r} is not a rate: give something like '60/min' or '5/s', or None.")
    return int(count), seconds


def wait_for(request: HttpRequest, what: str) -> int:
    """Count a request for a link (`what` is its token, or "" for junk): seconds to wait, 0 to go on."""
    rate = parse_rate(app_settings.LINK_THROTTLE)
    if rate is None:
        return 0
    most, seconds = rate
    now = int(time.time())
    window, passed = divmod(now, seconds)
    # A hash, because a cache is no place for tokens, and some take no long keys.
    whose = f"{request.META.get('REMOTE_ADDR', '')} {what}"
    key = f"stephooks:link:{hashlib.sha256(whose.encode()).hexdigest()}:{window}"
    try:
        count = 1 if cache.add(key, 1, timeout=seconds) else cache.incr(key)
    except Exception:
        # A broken cache keeps nobody from answering.
        logger.warning("Requests for links can not be counted.", exc_info=True)
        return 0
    return seconds - passed if count > most else 0
