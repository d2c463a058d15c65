"""A PostgreSQL and a Redis of the run's own, that may be killed, stopped and started again.

Both end with the process that started them (Linux), even if that is killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, ClassVar

import psycopg
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from demo_project.embedded_redis import EmbeddedRedis

USER = "chaos"
DATABASE = "chaos"
PATIENCE = 20.0


class ServerError(RuntimeError):
    """A server is not to be had, or did not start."""


class PostgreSQL:
    """A cluster in `directory`. Data is synced: what was acknowledged must be there after a crash."""

    OPTIONS: ClassVar = {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "max_connections": "200",
        "shared_buffers": "64MB",
        # When each row was committed, by a clock that no worker sets: what the checker compares with.
        "track_commit_timestamp": "on",
        "deadlock_timeout": "200ms",
    }

    def __init__(self, directory: Path, port: int) -> None:
        self.programs = _programs()
        self.directory, self.port = directory, port
        self.process: subprocess.Popen[bytes] | None = None
        # PostgreSQL refuses to be root.
        as_user = [_program("setpriv"), "--pdeathsig", "KILL"]
        if os.getuid() == 0:
            as_user += ["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
        self.prefix = as_user

    def create(self) -> None:
        self.directory.mkdir(mode=0o700)
        if os.getuid() == 0:
            shutil.chown(self.directory, "postgres", "postgres")
        initdb = [self.programs / "initdb", "-D", self.directory, "-U", USER, "--auth=trust"]
        made = subprocess.run(
            [*self.prefix, *map(str, initdb), "-E", "UTF8", "--locale=C.UTF-8"],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            raise ServerError(f"initdb failed:\n{made.stdout}{made.stderr}")

    def start(self) -> None:
        """Start, from the main thread: the kernel ties a child to a thread."""
        place = ("-D", self.directory, "-p", self.port)
        options = [part for name, value in self.OPTIONS.items() for part in ("-c", f"{name}={value}")]
        with Path(f"{self.directory}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.prefix, str(self.programs / "postgres"), *map(str, place), *options],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.connect("postgres").close()
                return
            except psycopg.OperationalError as error:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise ServerError(f"PostgreSQL does not start: {error}") from error
                time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """SIGQUIT is its immediate shutdown, as after a power cut; SIGINT its fast one."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(PATIENCE)
            self.process = None

    def connect(self, database: str = DATABASE) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=USER,
            dbname=database,
            autocommit=True,
            connect_timeout=3,
        )

    def terminate_backends(self, share: float) -> int:
        """Break some of the connections of the site."""
        with self.connect("postgres") as connection:
            ended = connection.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE datname = %s AND random() < %s",
                [DATABASE, share],
            ).fetchone()
        return int(ended[0]) if ended else 0


class RedisServer:
    """Keeps nothing: when it is killed, everything in it is gone."""

    def __init__(self, socket_path: Path) -> None:
        self.socket_path = socket_path
        self.server = EmbeddedRedis(socket_path=socket_path)
        # Whoever looks into it has other things to do than to wait for it.
        self.client = Redis(
            unix_socket_path=str(socket_path), socket_timeout=0.5, retry=Retry(NoBackoff(), 0)
        )

    def start(self) -> None:
        """From the main thread, likewise."""
        self.server = EmbeddedRedis(socket_path=self.socket_path).start()

    def kill(self) -> None:
        if (pid := self.server.pid) is not None:
            os.kill(pid, signal.SIGKILL)
        self.server.stop()
        self.socket_path.unlink(missing_ok=True)

    def signal(self, number: signal.Signals) -> None:
        if (pid := self.server.pid) is not None:
            os.kill(pid, number)

    def pause(self, seconds: float) -> None:
        self.client.execute_command("CLIENT", "PAUSE", int(seconds * 1000), "ALL")

    def answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except RedisError:
            return False


def _programs() -> Path:
    found = sorted(
        (path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")),
        key=lambda path: int(path.parent.name),
    )
    if found:
        return found[-1]
    if on_path := shutil.which("initdb"):
        return Path(on_path).resolve().parent
    raise ServerError("PostgreSQL is not installed: there is no initdb (Debian: apt-get install postgresql).")


def _program(name: str) -> str:
    if path := shutil.which(name):
        return path
    raise ServerError(f"There is no {name}; this runs on Linux only.")
