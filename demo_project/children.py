"""The demo's child processes: started, listened to, restarted, and stopped with all they forked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
# A child that ends this soon after its start will hardly do better the next time.
SHORT_LIFE = 5.0
MOST_SHORT_LIVES = 3

Show = Callable[[str, str], None]


class ChildFailed(Exception):
    """A part of the demo can not be kept running."""


class Child:
    """One ``manage.py`` command as a process of its own, in a process group of its own.

    Its output goes line by line to a log file and to ``show(name, line)``.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        logs: Path,
        show: Show,
    ) -> None:
        self.name = name
        self.command = command
        self.environment = environment
        self.log = logs / f"{name}.log"
        self.show = show
        self.short_lives = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._listener: threading.Thread | None = None
        self._started = 0.0

    @property
    def pid(self) -> int:
        return self.process.pid if self.process else 0

    def start(self) -> None:
        """Start the process; from the main thread, for the kernel ties a child to a *thread*."""
        self._started = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "demo_project.tethered", *self.command],
            cwd=ROOT,
            env={
                **os.environ,
                **self.environment,
                "DEMO_LAUNCHER_PID": str(os.getpid()),
                "PYTHONUNBUFFERED": "1",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # Away from the terminal's Ctrl-C: the launcher stops its children itself, in order.
            process_group=0,
        )
        self._listener = threading.Thread(target=self._listen, args=(self.process.stdout,), daemon=True)
        self._listener.start()

    def _listen(self, output: IO[bytes]) -> None:
        with output, self.log.open("ab") as log:
            for line in output:
                log.write(line)
                log.flush()
                self.show(self.name, line.decode(errors="replace").rstrip())

    def ended(self) -> int | None:
        """The exit code once the process has ended, negative for a signal."""
        return self.process.poll() if self.process else None

    def run(self, *, timeout: float) -> None:
        """Run to the end; ChildFailed if that is not a success."""
        self.start()
        self.stop(patience=timeout)
        if self.ended() != 0:
            raise ChildFailed(f"{self.name} failed:\n{self.tail()}")

    def keep_running(self) -> bool:
        """Start the process again if it has ended, and say whether it had."""
        code = self.ended()
        if code is None:
            return False
        if time.monotonic() - self._started > SHORT_LIFE:
            self.short_lives = 0
        else:
            self.short_lives += 1
        if self.short_lives >= MOST_SHORT_LIVES:
            raise ChildFailed(f"{self.name} ends whenever it is started:\n{self.tail()}")
        self.start()
        return True

    def ask_to_stop(self) -> None:
        self._signal(signal.SIGTERM)

    def stop(self, *, patience: float = 0.0) -> None:
        """End the process, by force after so many seconds."""
        if self.process is None:
            return
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self.process.wait()
        if self._listener is not None:
            self._listener.join(timeout=1)

    def _signal(self, number: signal.Signals) -> None:
        # Not for a process that has been waited for: its number may be somebody else's by now.
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, number)

    def tail(self, lines: int = 15) -> str:
        """The last lines of its output."""
        if not self.log.exists():
            return ""
        found = self.log.read_text(errors="replace").splitlines()[-lines:]
        return "\n".join(f"    {self.name} | {line}" for line in found)
