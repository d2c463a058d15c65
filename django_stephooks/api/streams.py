"""`GET /runs/{id}/stream/` and `GET /stream/{token}/`: a run as it happens, as server-sent events.

A request is answered for STREAM_LIFETIME; then the browser's EventSource comes again, with the id of
the last event that it got, and goes on from there. Under ASGI any number of requests wait together.
Under WSGI each holds a thread, so only a few do; the others get what there is, and come again soon.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

from django.core.handlers.asgi import ASGIRequest
from django.db import DatabaseError, connections
from django.http import HttpResponse, StreamingHttpResponse
from rest_framework.request import Request

from django_stephooks.conf import app_settings
from django_stephooks.durations import parse_duration
from django_stephooks.models import Run
from django_stephooks.models.transactions import write_alias
from django_stephooks.services.streams import Message, Watch, run_of_token

from .base import ApiView, NamelessPath
from .filters import StreamQuery
from .media import SafeJSONRenderer
from .permissions import VIEW_RUN, find_visible
from .throttles import StreamThrottle

MEDIA_TYPE = "text/event-stream"

# After so many milliseconds the browser comes again: where it was held, and where it was not.
RETRY, RETRY_SOON = 500, 2000
# A comment in between shows proxies, and us, that the connection is alive.
HEARTBEAT_SECONDS = 10.0
# How long a thread waits for the next chunk before it looks around.
WAIT_SECONDS = 1.0
# Without a thread that waits: from when chunks come, to when nothing happens.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.05, 1.0


class EventStreamRenderer(SafeJSONRenderer):
    """So that `Accept: text/event-stream` is accepted; what it renders are problems, which are JSON."""

    media_type = MEDIA_TYPE
    format = "event-stream"


class RunStream(ApiView):
    """What a run emits, when it waits for people, and its end; as server-sent events."""

    operation = "runs_stream"
    query_serializer = StreamQuery
    response_serializer = None
    success_media_type = MEDIA_TYPE
    goes_on_from = "Last-Event-ID"
    problem_statuses: Sequence[int] = (400, 403, 404, 429)
    renderer_classes = (EventStreamRenderer,)
    throttle_classes = (StreamThrottle,)

    def get(self, request: Request, public_id: UUID) -> Any:
        return self.stream(find_visible(request, Run.objects.using(write_alias()), VIEW_RUN, public_id))

    def stream(self, run: Run) -> HttpResponse | StreamingHttpResponse:
        after = self.request.headers.get(self.goes_on_from) or self.query().get("after", "")
        watch = Watch(run, after)
        if watch.is_needless:
            # Which tells an EventSource not to come again.
            return HttpResponse(status=204)
        request = self.request._request
        told: Any = _atold(watch) if isinstance(request, ASGIRequest) else _told(watch, _may_hold(request))
        response = StreamingHttpResponse(told, content_type=MEDIA_TYPE)
        response["X-Accel-Buffering"] = "no"
        # Or GZipMiddleware would collect the events until a block is full.
        response["Content-Encoding"] = "identity"
        return response


class StreamByToken(NamelessPath, RunStream):
    """The same without an account: for who was given the address of this one run's stream."""

    operation = "stream"
    problem_statuses = (400, 404, 429)
    authentication_classes = ()
    permission_classes = ()

    def get(self, request: Request, token: str) -> Any:  # type: ignore[override]
        return self.stream(run_of_token(token))


def _may_hold(request: Any) -> bool:
    """Not the only thread of a process: nobody else would get an answer meanwhile."""
    return bool(request.META.get("wsgi.multithread"))


_holding = 0
_lock = threading.Lock()


def _told(watch: Watch, may_hold: bool) -> Iterator[bytes]:
    global _holding
    with _lock:
        held = may_hold and _holding < app_settings.STREAM_THREADS
        _holding += held
    try:
        yield _retry(RETRY if held else RETRY_SOON)
        until, beat_at = _until(), time.monotonic() + HEARTBEAT_SECONDS
        while True:
            messages = watch.look(WAIT_SECONDS if held else 0)
            if messages or time.monotonic() >= beat_at:
                yield _as_sent(messages)
                beat_at = time.monotonic() + HEARTBEAT_SECONDS
            if watch.over or (time.monotonic() >= until if held else not messages):
                return
    except DatabaseError:
        return  # the browser comes again
    finally:
        with _lock:
            _holding -= held


# For all who watch under ASGI: one thread, with one connection to the database while anybody does.
_looker = ThreadPoolExecutor(1, thread_name_prefix="stephooks-streams")
_watching = 0


async def _atold(watch: Watch) -> AsyncIterator[bytes]:
    global _watching
    with _lock:
        _watching += 1
    try:
        yield _retry(RETRY)
        until, beat_at = _until(), time.monotonic() + HEARTBEAT_SECONDS
        pause = SHORTEST_PAUSE
        while True:
            messages = await asyncio.get_running_loop().run_in_executor(_looker, _look, watch)
            if messages or time.monotonic() >= beat_at:
                yield _as_sent(messages)
                beat_at = time.monotonic() + HEARTBEAT_SECONDS
            if watch.over or time.monotonic() >= until:
                return
            pause = SHORTEST_PAUSE if messages else min(1.5 * pause, LONGEST_PAUSE)
            await asyncio.sleep(pause)
    except DatabaseError:
        return  # the browser comes again
    finally:
        with _lock:
            _watching -= 1
            if not _watching:
                _looker.submit(connections.close_all)


def _look(watch: Watch) -> list[Message]:
    try:
        return watch.look()
    except DatabaseError:
        # It may be the connection that is broken, and no request's end cleans up in this thread.
        connections.close_all()
        raise


def _until() -> float:
    lifetime = parse_duration(app_settings.STREAM_LIFETIME, name="STREAM_LIFETIME")
    return time.monotonic() + lifetime.total_seconds()


def _retry(milliseconds: int) -> bytes:
    return b"retry: %d\n\n" % milliseconds


def _as_sent(messages: list[Message]) -> bytes:
    """The messages as events; a comment if there are none."""
    return "".join(map(_event, messages)).encode() if messages else b": \n\n"


def _event(message: Message) -> str:
    # JSON has its line breaks escaped, so the data is one line.
    cursor = f"id: {message.cursor}\n" if message.cursor else ""
    return f"{cursor}event: {message.event}\ndata: {message.data}\n\n"
