"""A run as server-sent events: who may watch it, what is sent, and how long a request lasts."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from typing import Any

import pytest
from django.core.handlers.asgi import ASGIRequest
from django.db import OperationalError, connection
from django.middleware.gzip import GZipMiddleware
from django.test import AsyncRequestFactory, RequestFactory

from django_stephooks.api import streams
from django_stephooks.models import Chunk, Run
from django_stephooks.runtimes.streams import DatabaseStream, Entry
from django_stephooks.services.streams import Watch
from django_stephooks.streaming import stream_token, stream_url
from tests.factories import HookFactory, RunFactory

from .conftest import Client, client_of, problem, slug


def emitted(run: Run, *texts: str) -> None:
    Chunk.objects.bulk_create(
        Chunk(run=run, number=number, kind="chunk", data=f'{{"call":"a:1","n":{number},"chunk":"{text}"}}')
        for number, text in enumerate(texts, Chunk.objects.filter(run=run).count() + 1)
    )


@pytest.fixture
def run(db: None) -> Run:
    """At its end, having said two things."""
    run: Run = RunFactory(completed=True)
    emitted(run, "hello", "you")
    return run


def events(body: bytes) -> list[dict[str, str]]:
    """What an EventSource makes of it."""
    found = []
    for block in body.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in fields:
            found.append(fields)
    return found


def told(response: Any) -> list[Any]:
    assert response.status_code == 200
    return [(event["event"], json.loads(event["data"])) for event in events(response.getvalue())]


def test_it_is_an_event_stream_that_nobody_keeps_or_collects(operator: Client, run: Run):
    response = operator.get(f"runs/{run.public_id}/stream/", HTTP_ACCEPT="text/event-stream")

    assert response["Content-Type"] == "text/event-stream"
    assert response["Cache-Control"] == "private, no-store"
    assert response["X-Accel-Buffering"] == "no"
    assert response.getvalue() == (
        b"retry: 2000\n\n"
        b'id: 0-1\nevent: chunk\ndata: {"call":"a:1","n":1,"chunk":"hello"}\n\n'
        b'id: 0-2\nevent: chunk\ndata: {"call":"a:1","n":2,"chunk":"you"}\n\n'
        b'id: 0-2.end\nevent: end\ndata: {"status": "completed"}\n\n'
    )


@pytest.mark.parametrize("how", ["header", "query", "both"])
def test_it_goes_on_behind_the_last_event(operator: Client, run: Run, how: str):
    query = {"after": "0-1"} if how == "query" else {"after": "0-2"} if how == "both" else {}
    headers = {} if how == "query" else {"Last-Event-ID": "0-1"}

    response = operator.get(f"runs/{run.public_id}/stream/", query, headers=headers)

    assert [event for event, _ in told(response)] == ["chunk", "end"]


def test_who_had_the_end_is_told_not_to_come_again(operator: Client, run: Run):
    response = operator.get(f"runs/{run.public_id}/stream/", headers={"Last-Event-ID": "0-2.end"})

    assert response.status_code == 204


def test_an_after_that_is_no_id_is_refused(operator: Client, run: Run):
    response = operator.get(f"runs/{run.public_id}/stream/", {"after": "x"}, HTTP_ACCEPT="text/event-stream")

    assert slug(response) == "invalid-request"


def test_watching_takes_what_reading_a_run_takes(reviewer: Client, anyone: Client, run: Run):
    path = f"runs/{run.public_id}/stream/"

    assert reviewer.get(path).status_code == 404
    assert anyone.get(path, HTTP_ACCEPT="text/event-stream").status_code == 403
    assert client_of("view_run").get(path).status_code == 200


def test_a_token_lets_anybody_watch_its_run_and_no_other(anyone: Client, run: Run):
    assert stream_url(run) == f"/api/stephooks/stream/{stream_token(run)}/"

    assert [event for event, _ in told(anyone.get(stream_url(run)))] == ["chunk", "chunk", "end"]
    other = stream_token(run)[:22] + stream_token(RunFactory())[22:]
    assert slug(anyone.get(f"stream/{other}/")) == "not-found"


def test_a_token_of_another_purpose_lets_nobody_watch(anyone: Client, db: None):
    hook = HookFactory()
    RunFactory(public_id=hook.public_id)

    assert slug(anyone.get(f"stream/{hook.token}/")) == "not-found"


@pytest.mark.parametrize("junk", ["x", "A" * 44, "z" * 44, "A" * 500])
def test_a_token_that_is_none_is_not_found(anyone: Client, db: None, junk: str):
    assert slug(anyone.get(f"stream/{junk}/", HTTP_ACCEPT="text/event-stream")) == "not-found"


def test_a_token_is_in_no_log(
    anyone: Client, run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(Watch, "__init__", lambda *args: 1 / 0)
    anyone.raise_request_exception = False

    response = anyone.get(stream_url(run))

    assert problem(response)["type"] == "urn:stephooks:broken"
    assert "by token could not be taken" in caplog.text
    assert stream_token(run) not in caplog.text


def test_requests_to_watch_are_counted(anyone: Client, run: Run, settings: Any):
    settings.STEPHOOKS = {**settings.STEPHOOKS, "API_THROTTLES": {"stephooks-stream": "1/min"}}

    assert anyone.get(stream_url(run)).status_code == 200
    assert slug(anyone.get(stream_url(run))) == "throttled"


def test_a_run_that_waits_says_for_what(operator: Client, db: None):
    hook = HookFactory(name="approve")

    response = operator.get(f"runs/{hook.run.public_id}/stream/")

    assert told(response) == [("waiting", {"hooks": ["approve"]})]


def test_the_gzip_middleware_lets_each_event_through_at_once(run: Run):
    request = RequestFactory(headers={"accept-encoding": "gzip"}).get("/")
    response = streams.StreamByToken.as_view()(request, token=stream_token(run))

    pieces = list(GZipMiddleware(lambda request: response)(request).streaming_content)

    assert pieces[0] == b"retry: 2000\n\n"
    with pytest.raises(gzip.BadGzipFile):
        gzip.decompress(b"".join(pieces))


# How long a request lasts.


class Held:
    """A request that holds its thread, if it may."""

    def __init__(self, run: Run) -> None:
        self.pieces = streams._told(Watch(run), True)

    def next(self) -> bytes:
        return next(self.pieces)

    def close(self) -> None:
        self.pieces.close()


@pytest.fixture
def waiting(db: None) -> Run:
    run: Run = RunFactory(running=True)
    emitted(run, "a")
    return run


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "WAIT_SECONDS", 0.01)
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.05)


@pytest.mark.parametrize(("has_many_threads", "retry"), [(True, b"500"), (False, b"2000")])
def test_only_a_server_with_many_threads_holds_one(waiting: Run, has_many_threads: bool, retry: bytes):
    request = RequestFactory().get("/", **{"wsgi.multithread": has_many_threads})

    response: Any = streams.StreamByToken.as_view()(request, token=stream_token(waiting))

    assert next(response.streaming_content) == b"retry: %s\n\n" % retry
    # As at its end, but for the signal that would close this test's connection.
    for close in response._resource_closers:
        close()
    assert streams._holding == 0


def test_a_held_request_gets_what_comes_later(waiting: Run):
    held = Held(waiting)
    assert held.next() == b"retry: 500\n\n"
    assert b'"chunk":"a"' in held.next()

    emitted(waiting, "b")

    assert b'"chunk":"b"' in held.next()
    assert held.next() == b": \n\n"
    held.close()


def test_a_held_request_ends_after_its_lifetime(waiting: Run, settings: Any):
    settings.STEPHOOKS = {**settings.STEPHOOKS, "STREAM_LIFETIME": 0.2}
    held = Held(waiting)

    pieces = list(held.pieces)

    assert [event["id"] for event in events(b"".join(pieces))] == ["0-1"]
    assert streams._holding == 0


def test_only_so_many_requests_hold_a_thread_and_the_others_are_answered_at_once(waiting: Run, settings: Any):
    settings.STEPHOOKS = {**settings.STEPHOOKS, "STREAM_THREADS": 1}
    held, other = Held(waiting), Held(waiting)
    assert held.next() == b"retry: 500\n\n"

    pieces = list(other.pieces)

    assert pieces[0] == b"retry: 2000\n\n"
    assert [event["event"] for event in events(b"".join(pieces))] == ["chunk"]
    # Whoever goes away makes room.
    held.close()
    assert streams._holding == 0
    third = Held(waiting)
    assert third.next() == b"retry: 500\n\n"
    third.close()


def test_a_database_that_is_away_ends_the_request_and_the_browser_comes_again(
    waiting: Run, monkeypatch: pytest.MonkeyPatch
):
    held = Held(waiting)
    held.next()

    def away(self: Any, wait: float = 0) -> Any:
        raise OperationalError

    monkeypatch.setattr(Watch, "look", away)

    assert list(held.pieces) == []
    assert streams._holding == 0


# Under ASGI.


async def pieces_of(run: Run, pieces: list[bytes], until: bytes) -> None:
    """Collect what is sent, up to this."""
    request = AsyncRequestFactory().get("/")
    assert isinstance(request, ASGIRequest)
    view = streams.StreamByToken.as_view()
    response = await asyncio.to_thread(_and_close, view, request, token=stream_token(run))
    async for piece in response:
        pieces.append(piece)
        if until in piece:
            break
    await response.streaming_content.aclose()


def _and_close(function: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    finally:
        connection.close()


def watched(run: Run, until: bytes = b"never") -> list[bytes]:
    pieces: list[bytes] = []
    asyncio.run(pieces_of(run, pieces, until))
    return pieces


@pytest.mark.django_db(transaction=True)
def test_under_asgi_any_number_of_requests_wait_in_one_thread():
    run = RunFactory(running=True)
    emitted(run, "a")
    received: list[list[bytes]] = [[] for _ in range(40)]
    threads: set[str] = set()

    async def watch() -> None:
        watchers = [asyncio.create_task(pieces_of(run, pieces, b'"b"')) for pieces in received]
        # Until each has got a heartbeat.
        while not all(b": \n\n" in pieces for pieces in received):
            await asyncio.sleep(0.01)
        threads.update(thread.name for thread in threading.enumerate() if "stephooks-streams" in thread.name)
        await asyncio.to_thread(_and_close, emitted, run, "b")
        await asyncio.gather(*watchers)

    asyncio.run(watch())

    assert len(threads) == 1
    assert streams._watching == 0
    for pieces in received:
        assert pieces[0] == b"retry: 500\n\n"
        assert [event["id"] for event in events(b"".join(pieces))] == ["0-1", "0-2"]


@pytest.mark.django_db(transaction=True)
def test_under_asgi_it_ends_with_its_run_and_after_its_lifetime(settings: Any):
    finished, running = RunFactory(completed=True), RunFactory(running=True)
    emitted(finished, "a")
    settings.STEPHOOKS = {**settings.STEPHOOKS, "STREAM_LIFETIME": 0.2}

    assert [event["event"] for event in events(b"".join(watched(finished)))] == ["chunk", "end"]
    assert events(b"".join(watched(running))) == []


@pytest.mark.django_db(transaction=True)
def test_under_asgi_a_database_that_is_away_ends_the_request(monkeypatch: pytest.MonkeyPatch):
    run = RunFactory(running=True)
    monkeypatch.setattr(DatabaseStream, "_rows", _away)
    monkeypatch.setattr(Watch, "_look_at_run", _away)
    monkeypatch.setattr(Watch, "is_needless", False)

    assert watched(run) == [b"retry: 500\n\n"]


def _away(*args: Any) -> list[Entry]:
    raise OperationalError
