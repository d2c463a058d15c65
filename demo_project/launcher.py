"""The whole demo, running: Redis, database, worker, scheduler, and web server.

``serve()`` runs it for a person until Ctrl-C; ``check`` drives the same ``Demo`` without one.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from .children import ROOT, Child, ChildFailed, Show
from .embedded_redis import EmbeddedRedis, RedisUnavailableError
from .places import demo_folder, free_port

STOP_SECONDS = 5.0
READY_SECONDS = 30.0
# Every second, and four lines each time: the log has them, the terminal is for what happens.
TICKING = re.compile(r"stephooks-sweep|Enforce deadlines")
COLORS = {"web": 36, "worker": 33, "scheduler": 35}


class Demo:
    """A context manager: everything runs inside it, and nothing of it runs on after it."""

    def __init__(self, folder: Path, *, port: int, show: Show, pace: float = 0.0, slow: float = 30.0) -> None:
        self.folder = folder
        self.port = port
        self.show = show
        self.redis = EmbeddedRedis()
        self.environment = {
            "DEMO_DIR": str(folder),
            "DEMO_REDIS_SOCKET": str(self.redis.socket_path),
            "NEWSROOM_PACE": str(pace),
            "NEWSROOM_SLOW": str(slow),
        }
        self.worker = self._child("worker", "newsroom_worker", "default")
        self.scheduler = self._child("scheduler", "stephooks_scheduler", "--interval", "1")
        self.web = self._child("web", "runserver", "--noreload")
        self._to_stop: list[Child] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    @property
    def children(self) -> tuple[Child, ...]:
        return (self.web, self.scheduler, self.worker)

    def _child(self, name: str, *command: str) -> Child:
        return Child(
            name,
            command,
            environment=self.environment,
            logs=self.folder,
            show=self.show,
        )

    def __enter__(self) -> Demo:
        try:
            self._open()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._close()

    def _open(self) -> None:
        self.redis.start()
        self._take_port()
        migrate = self._child("migrate", "migrate", "--no-input", "--verbosity", "0")
        seed = self._child("seed", "seed_newsroom", "--if-empty")
        # The seed's runs go on in its own process: it is told of no Redis.
        seed.environment = {**self.environment, "DEMO_REDIS_SOCKET": "", "NEWSROOM_PACE": "0"}
        for errand in (migrate, seed):
            self._to_stop = [errand]
            errand.run(timeout=120)
        self._to_stop = list(self.children)
        self._open_web()
        self.scheduler.start()
        self.worker.start()

    def _take_port(self) -> None:
        self.port = free_port(self.port)
        # The children share this dictionary: their mail has links to the site.
        self.environment["DEMO_PORT"] = str(self.port)
        self.web.command = ("runserver", "--noreload", f"127.0.0.1:{self.port}")

    def _open_web(self) -> None:
        """Start the web server; on another port if somebody took ours in the meantime."""
        for _ in range(3):
            self._take_port()
            self.web.start()
            deadline = time.monotonic() + READY_SECONDS
            while self.web.ended() is None:
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(self.url, timeout=READY_SECONDS).close()  # noqa: S310
                    # That may have been somebody else's answer, if our server could not start.
                    if self.web.ended() is None:
                        return
                if time.monotonic() > deadline:
                    break
                time.sleep(0.1)
            self.web.ask_to_stop()
            self.web.stop()
        raise ChildFailed(f"The web server does not answer:\n{self.web.tail()}")

    def supervise(self) -> list[Child]:
        """Start again whatever has ended; call this often. Returns what was started again."""
        return [child for child in self.children if child.keep_running()]

    def _close(self) -> None:
        for child in self._to_stop:
            child.ask_to_stop()
        deadline = time.monotonic() + STOP_SECONDS
        for child in self._to_stop:
            child.stop(patience=max(0.0, deadline - time.monotonic()))
        self.redis.stop()


@contextlib.contextmanager
def stopping_in_order() -> Iterator[None]:
    """Make SIGTERM and a closed terminal what Ctrl-C is, and only the first of them count."""

    def stop(number: int, frame: FrameType | None) -> None:
        # The way out must not be cut short by a second, impatient Ctrl-C.
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(name, signal.SIG_IGN)
        raise KeyboardInterrupt

    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, stop)
    yield


def terminal_show() -> Show:
    """Print the children's lines, each after its speaker's name; colored on a terminal."""
    lock = threading.Lock()
    colored = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def show(name: str, line: str) -> None:
        if TICKING.search(line):
            return
        speaker = f"{name:9} |"
        if colored and name in COLORS:
            speaker = f"\x1b[{COLORS[name]}m{speaker}\x1b[0m"
        # A terminal that is gone must not keep us from stopping in order.
        with lock, contextlib.suppress(OSError):
            print(speaker, line, flush=True)

    return show


def serve() -> int:
    """Run the demo until Ctrl-C."""
    wanted = Path(os.environ.get("DEMO_DIR") or ROOT / ".demo").absolute()
    show = terminal_show()
    with demo_folder(wanted) as folder:
        if folder != wanted:
            show("demo", f"{wanted} is in use by another demo: this one is in {folder}.")
        show("demo", "Opening the newsroom; this takes a few seconds.")
        port = int(os.environ.get("DEMO_PORT") or 8000)
        try:
            with stopping_in_order(), Demo(folder, port=port, show=show, pace=1.0) as demo:
                print(welcome(demo), flush=True)
                while True:
                    time.sleep(0.2)
                    for child in demo.supervise():
                        show("demo", f"The {child.name} had ended; a new one has pid {child.pid}.")
        except KeyboardInterrupt:
            show("demo", "Closed.")
            return 0
        except (ChildFailed, RedisUnavailableError) as error:
            show("demo", str(error))
            return 1


def welcome(demo: Demo) -> str:
    """What a person who has just typed ``make demo`` wants to know."""
    return f"""
  The newsroom is open:  {demo.url}

  1. Log in as author (password: author) and start a story: {demo.url}start/
     It stops for its editor. Meanwhile the worker is free.
  2. Log in as editor (password: editor) and answer:        {demo.url}admin/django_stephooks/hook/
  3. Read it on the front page.

  An agent that asks people: write to the readers' desk,    {demo.url}support/
  see it answer word by word, and answer as editor what it asks a colleague (in the admin, or by the
  link in the mail). It goes on before your eyes.

  admin (password: admin) sees everything: {demo.url}admin/
  Mail is in {demo.folder / "mail"}

  The worker has pid {demo.worker.pid}. Kill it whenever you like:  kill -9 {demo.worker.pid}
  A new one takes over after a few seconds, and no finished step is repeated. (For time to do so,
  start a story whose fact checker is slow.)

  Ctrl-C closes everything.
"""
