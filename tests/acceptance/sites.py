"""A site of a test's own: its database, a Redis that may be stopped, and the processes started on them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.db import connection
from redis import Redis
from rq import Queue
from rq.registry import FailedJobRegistry

from demo_project.embedded_redis import EmbeddedRedis
from django_stephooks import resume_hook
from django_stephooks.models import Event, Run

from . import worker_settings
from .processes import Command, until

FORKING, SIMPLE = "rq.Worker", "rq.SimpleWorker"


class Site:
    """A database, a Redis that may be stopped, and the commands that were started on them."""

    def __init__(self, directory: Path, socket_path: Path) -> None:
        self.directory = directory
        self.desk = str(directory)
        self.socket_path = socket_path
        self.server = EmbeddedRedis(socket_path=socket_path).start()
        self.redis = Redis(unix_socket_path=str(socket_path))
        self.commands: list[Command] = []
        self.sweeps = False
        self.settings_module = worker_settings.__name__

    def command(self, *args: str) -> Command:
        log = self.directory / f"{len(self.commands)}-{args[0]}.log"
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": self.settings_module,
            "STEPHOOKS_TEST_DB_NAME": str(connection.settings_dict["NAME"]),
            "STEPHOOKS_TEST_REDIS_SOCKET": str(self.socket_path),
            # Who is killed can not tidy up.
            "TMPDIR": self.desk,
        }
        self.commands.append(Command(*args, environment=environment, log=log))
        return self.commands[-1]

    def worker(self, worker_class: str = SIMPLE) -> Command:
        return self.command("rqworker", "default", "--worker-class", worker_class)

    def sweeper(self) -> Command:
        return self.command("stephooks_sweep", "--loop", "--interval", "0.2")

    def sweep_from_now_on(self) -> None:
        """As the sweeper does, without waiting for another process to start."""
        self.sweeps = True

    def until(self, happened: Callable[[], object]) -> None:
        next_sweep = time.monotonic()

        def look() -> object:
            nonlocal next_sweep
            if self.sweeps and time.monotonic() >= next_sweep:
                call_command("stephooks_sweep", stdout=StringIO())
                next_sweep = time.monotonic() + 0.2
            return happened()

        until(look, *self.commands)

    def until_status(self, run: Run, status: Run.Status) -> Run:
        def has_it() -> bool:
            run.refresh_from_db()
            assert run.status == status or not run.is_finished, (run.status, run.error)
            return run.status == status

        self.until(has_it)
        return run

    def until_noted(self, what: str) -> None:
        self.until(lambda: what in self.notes())

    def notes(self) -> list[str]:
        notes = self.directory / "notes"
        return notes.read_text().splitlines() if notes.exists() else []

    def open_gate(self, gate: str) -> None:
        (self.directory / gate).touch()

    def queue(self) -> Queue:
        return Queue("default", connection=self.redis)

    def failed_jobs(self) -> list[str]:
        return FailedJobRegistry(queue=self.queue()).get_job_ids()

    def close(self) -> None:
        for gate in ("go", "finish"):
            self.open_gate(gate)
        for command in self.commands:
            command.close()
        self.redis.close()
        self.server.stop()


def journal(run: Run, type: Event.Type) -> list[str]:
    return list(run.events.filter(type=type).values_list("call", flat=True))


def answer(run: Run, payload: Any, name: str = "review") -> None:
    resume_hook(run.hooks.get(name=name).token, payload, by="dana")
