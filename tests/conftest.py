"""Fixtures that every test may ask for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import django
import pytest
from django.conf import settings
from django.db import connection
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from demo_project.embedded_redis import EmbeddedRedis
from tests.clock import Clock

# No deadline: a test never depends on how fast the machine is.
hypothesis_settings.register_profile(
    "dev",
    max_examples=50,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
hypothesis_settings.register_profile("ci", hypothesis_settings.get_profile("dev"), max_examples=500)
hypothesis_settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "dev")


def pytest_configure(config: pytest.Config) -> None:
    settings.SCRATCH.mkdir(mode=0o700)


def pytest_report_header(config: pytest.Config) -> str:
    # So that a cell of the matrix shows that it ran on what it says.
    return f"database: {connection.vendor}, Django {django.get_version()}"


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(settings.SCRATCH, ignore_errors=True)


@pytest.fixture(scope="session")
def redis_socket() -> Iterator[str]:
    """Start a Redis where RQ_QUEUES says, and give the path of its socket."""
    with EmbeddedRedis(socket_path=settings.REDIS_SOCKET) as server:
        yield str(server.socket_path)


@pytest.fixture
def child_environment(transactional_db: None, redis_socket: str) -> dict[str, str]:
    """The environment in which a child process sees this test's database and Redis."""
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "STEPHOOKS_TEST_DB_NAME": str(connection.settings_dict["NAME"]),
        "STEPHOOKS_TEST_REDIS_SOCKET": redis_socket,
    }


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time, standing still: `clock.advance("1h")` moves it."""
    clock = Clock()
    monkeypatch.setattr("django.utils.timezone.now", clock)
    return clock
