"""Streams of both kinds, empty; and what the code of these workflows is told to do."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from demo_project.embedded_redis import EmbeddedRedis
from django_stephooks.runtimes import rq

from . import runtimes, workflows


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process that has just started: no connection, no quiet period; and nothing to say yet."""
    monkeypatch.setattr(rq, "_here", rq._Process())
    workflows.reset()
    yield
    workflows.reset()
    for _, client in rq._here._clients:
        client.close()


@pytest.fixture
def database_streams(settings: Any) -> None:
    settings.STEPHOOKS = {"RUNTIME": f"{runtimes.__name__}.Silent"}


@pytest.fixture
def redis(redis_socket: str, settings: Any) -> Iterator[Redis]:
    """An empty Redis, where streams are kept."""
    settings.STEPHOOKS = {"RUNTIME": f"{runtimes.__name__}.SilentWithRedis"}
    with Redis(unix_socket_path=redis_socket) as client:
        client.flushall()
        yield client


@pytest.fixture(params=["database", "redis"])
def streams(request: pytest.FixtureRequest) -> str:
    """Both kinds, one after the other."""
    request.getfixturevalue("redis" if request.param == "redis" else "database_streams")
    return str(request.param)


@pytest.fixture
def own_redis(settings: Any) -> Iterator[EmbeddedRedis]:
    """A Redis that this test may stop, and start again at the same path with another instance."""
    with tempfile.TemporaryDirectory(prefix="stephooks-") as directory:
        socket_path = Path(directory) / "redis.sock"
        settings.STEPHOOKS = {"RUNTIME": f"{runtimes.__name__}.SilentWithRedis"}
        settings.RQ_QUEUES = {"default": {"UNIX_SOCKET_PATH": str(socket_path), "DB": 0}}
        with EmbeddedRedis(socket_path=socket_path) as server:
            yield server
