"""`manage.py` commands as processes that are gone when the test is, and what they leave in Redis."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from redis import Redis

from demo_project import embedded_redis
from demo_project.process_tree import children_of

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE = 45


class Command:
    """A running `manage.py …`. On Linux the kernel ends it with the process that runs the tests."""

    def __init__(self, *args: str, environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        # The launcher of the embedded Redis: it ties whatever it becomes to its owner.
        tied = [sys.executable, "-I", "-S", embedded_redis.__file__, str(os.getpid())]
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [*tied, sys.executable, "manage.py", *args],
                cwd=ROOT,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self._left_behind: list[int] = []

    def work_horses(self) -> list[int]:
        """What a forking worker has forked."""
        return children_of(self.process.pid)

    def kill(self) -> None:
        """Pull the plug: kill -9, of the worker and of what it forked."""
        horses = self.work_horses()
        self._kill(self.process.pid, *horses)
        self.process.wait(PATIENCE)

    def kill_work_horse(self) -> None:
        """kill -9 of the fork alone, as the kernel does when memory runs out."""
        self._kill(*self.work_horses())

    def kill_parent(self) -> None:
        """kill -9 of the worker alone: its fork goes on as an orphan."""
        self._left_behind += self.work_horses()
        self._kill(self.process.pid)
        self.process.wait(PATIENCE)

    def close(self) -> None:
        """Leave nothing running."""
        if self.process.poll() is None:
            self.kill()
        self._kill(*self._left_behind)

    @staticmethod
    def _kill(*pids: int) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def until(happened: Callable[[], object], *commands: Command) -> None:
    """Wait for other processes; if it takes too long, fail with what they said."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        if time.monotonic() > deadline:
            said = "\n".join(it.log.read_text(errors="replace")[-3000:] for it in commands)
            raise AssertionError(f"It did not happen in {PATIENCE} s. The processes said:\n{said}")
        time.sleep(0.02)


def everything_in(redis: Redis) -> bytes:
    """All keys and values, with what RQ has packed unpacked."""
    return b"\n".join(form for value in _values(redis) for form in _forms(value))


def _values(redis: Redis) -> Iterator[bytes]:
    for key in redis.keys("*"):
        yield key
        kind = redis.type(key)
        if kind == b"string":
            yield redis.get(key) or b""
        elif kind == b"hash":
            for name, value in redis.hgetall(key).items():
                yield from (name, value)
        elif kind == b"list":
            yield from redis.lrange(key, 0, -1)
        elif kind == b"set":
            yield from redis.smembers(key)
        elif kind == b"zset":
            yield from redis.zrange(key, 0, -1)
        elif kind == b"stream":
            for _, fields in redis.xrange(key):
                yield from fields.values()
        # A key may be gone between two calls.


def _forms(value: bytes) -> Iterator[bytes]:
    yield value
    for unpack in (zlib.decompress, _from_base64):
        with contextlib.suppress(zlib.error, binascii.Error):
            unpacked = unpack(value)
            yield unpacked
            if unpack is _from_base64:
                with contextlib.suppress(zlib.error):
                    yield zlib.decompress(unpacked)


def _from_base64(value: bytes) -> bytes:
    return base64.b64decode(value, validate=True)
