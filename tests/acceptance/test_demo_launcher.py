"""`python -m demo_project` as a person uses it: opened, opened twice, closed, killed."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from demo_project.browser import Browser
from demo_project.children import ROOT

Open = Callable[[], "OpenDemo"]


class OpenDemo:
    """A launched demo whose welcome has been read."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "demo_project"],
            cwd=ROOT,
            env={**os.environ, "DEMO_DIR": str(folder), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said = ""

    def read_the_welcome(self) -> None:
        self.hear("Ctrl-C closes everything.")

    @property
    def url(self) -> str:
        return self._find(r"The newsroom is open:\s+(\S+)")

    def _hear(self) -> str:
        line = self.process.stdout.readline()  # type: ignore[union-attr]
        assert line, f"The demo did not open:\n{self.said}"
        return line

    def _find(self, pattern: str) -> str:
        found = re.search(pattern, self.said)
        assert found, self.said
        return found[found.lastindex or 0]

    @property
    def worker_pid(self) -> int:
        return int(self._find(r"The worker has pid (\d+)"))

    def hear(self, pattern: str) -> str:
        """Listen until the demo says this."""
        while not re.search(pattern, self.said):
            self.said += self._hear()
        return self._find(pattern)

    def answers(self) -> bool:
        """Whether anybody listens at its address."""
        port = int(self.url.rstrip("/").rpartition(":")[2])
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        self.process.communicate(timeout=60)
        return self.process.returncode


@pytest.fixture
def open_demo(tmp_path: Path) -> Iterator[Open]:
    opened: list[OpenDemo] = []

    def open_one() -> OpenDemo:
        demo = OpenDemo(tmp_path / "demo")
        opened.append(demo)
        demo.read_the_welcome()
        return demo

    yield open_one
    for demo in opened:
        if demo.process.returncode is None:
            demo.end(signal.SIGKILL)


def test_demo_opens_beside_another_and_after_one_that_was_killed(open_demo: Open, tmp_path: Path) -> None:
    first = open_demo()
    second = open_demo()
    assert second.url != first.url
    assert "is in use by another demo" in second.said
    assert "Netherfield Park" in Browser(first.url).open("/").text
    assert "Netherfield Park" in Browser(second.url).open("/").text

    assert second.end(signal.SIGINT) == 0
    assert not second.answers()

    first.end(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while first.answers():
        assert time.monotonic() < deadline, "the web server outlives its launcher"
        time.sleep(0.05)

    third = open_demo()
    assert "is in use" not in third.said
    assert "Netherfield Park" in Browser(third.url).open("/").text
    assert third.end(signal.SIGTERM) == 0


def test_killed_worker_is_replaced_and_the_reader_is_told(open_demo: Open) -> None:
    demo = open_demo()
    os.kill(demo.worker_pid, signal.SIGKILL)
    replaced = int(demo.hear(r"The worker had ended; a new one has pid (\d+)"))
    assert replaced != demo.worker_pid
    assert demo.end(signal.SIGINT) == 0
