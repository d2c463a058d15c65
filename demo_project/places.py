"""Where a demo lives: a directory of its own and a port, also beside another demo."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def demo_folder(wanted: Path) -> Iterator[Path]:
    """The wanted directory, kept for next time; or a passing one if a running demo has it.

    The lock is the kernel's, so that of a demo that was killed is gone with it.
    """
    with contextlib.ExitStack() as stack:
        try:
            wanted.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context((wanted / "lock").open("a"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            # In use, or a directory in which we may not write.
            yield Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="newsroom-")))
        else:
            yield wanted


def free_port(wanted: int) -> int:
    """The wanted port of the loopback interface, or the next one that nobody listens on.

    0 wants any.
    """
    if wanted:
        for port in range(wanted, min(wanted + 100, 65536)):
            if _is_free(port):
                return port
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _is_free(port: int) -> bool:
    try:
        # Binds as the web server will: with SO_REUSEADDR.
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
