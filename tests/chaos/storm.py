"""The order of things in one run: servers, crew and load start, faults come, calm returns, all is kept."""

from __future__ import annotations

import contextlib
import http.client
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.core.management import call_command

from demo_project.places import free_port

from . import records, summary
from .crew import Crew
from .diary import note
from .doors import Site
from .evidence import Limits
from .faults import Faults
from .load import Load
from .plan import plan
from .servers import PostgreSQL, RedisServer
from .watch import Watch

if TYPE_CHECKING:
    from .__main__ import Options

# How long the site may take to come to rest once the faults have stopped.
DRAIN_SECONDS = 45.0
STARTUP_SECONDS = 30.0
TICK = 0.05
LOOK_EVERY = 0.3

# Who is ready, at work, or due some time; who is to answer; and what is to be repaired.
RESTLESS = """
SELECT (SELECT count(*) FROM django_stephooks_run WHERE status IN ('pending', 'running')
        OR (status = 'suspended' AND due_at IS NOT NULL))
    + (SELECT count(*) FROM django_stephooks_hook WHERE status = 'pending' AND name NOT LIKE 'left%')
    + (SELECT count(*) FROM django_stephooks_run WHERE status = 'failed' AND workflow LIKE '%.repair')
"""


class Storm:
    def __init__(self, options: Options) -> None:
        self.options = options
        self.directory = options.directory
        self.postgres = PostgreSQL(options.directory / "postgres", options.postgres_port)
        self.redis = RedisServer(options.directory / "redis.sock")
        self.port = free_port(0)
        self.crew = Crew(self.directory, self.port, workers=options.workers, skew=options.skew)
        self.watch = Watch(self.directory, self.redis)
        self.next_look = 0.0

    def run(self) -> None:
        """Leaves everything that the checker looks at in the directory."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.postgres.stop, signal.SIGINT)
            stack.callback(self.redis.kill)
            stack.callback(self.watch.close)
            self._open()
            stack.callback(self.crew.clear_away)
            self._go_through_it()
            self.watch.look(final=True)
            note("closed", ended=self.crew.close())
            self._keep_records()

    def _open(self) -> None:
        self.postgres.create()
        self.postgres.start()
        self.redis.start()
        with self.postgres.connect("postgres") as connection:
            connection.execute("CREATE DATABASE chaos")
        call_command("migrate", verbosity=0)
        with self.postgres.connect() as connection:
            connection.execute(records.HISTORY)
        self.crew.start_all()
        if not self._until(self._is_up, STARTUP_SECONDS):
            raise RuntimeError(f"The site does not start; see {self.directory}.")

    def _go_through_it(self) -> None:
        # Somebody who may answer everything.
        user = get_user_model().objects.create_superuser("dana", "dana@example.com", "password")
        load = Load(self.options.seed, Site(self.port, user), self.directory)
        planned = plan(self.options.seed, self.options.seconds)
        if only := self.options.only:
            planned = [fault for fault in planned if fault.kind in only]
        note("began")
        faults = Faults(planned, crew=self.crew, postgres=self.postgres, redis=self.redis)
        load.begin()
        try:
            self._until(lambda: False, self.options.seconds, faults.tick)
            faults.stop()
            note("calm")
            load.no_more_runs()
            note("drained" if self._until(self._is_at_rest, DRAIN_SECONDS) else "not drained")
        finally:
            faults.stop()
            load.end()

    def _until(
        self, happened: Callable[[], bool], seconds: float, each: Callable[[], None] = lambda: None
    ) -> bool:
        """Keep everything going until that has happened; False if it takes too long."""
        deadline = time.monotonic() + seconds
        while not happened():
            if time.monotonic() > deadline:
                return False
            each()
            self.crew.keep_up()
            self.watch.look()
            time.sleep(TICK)
        return True

    def _is_up(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            connection.request("GET", "/admin/login/")
            web = connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()
        return web and int(self.redis.client.scard("rq:workers")) > 0

    def _is_at_rest(self) -> bool:
        if time.monotonic() < self.next_look:
            return False
        self.next_look = time.monotonic() + LOOK_EVERY
        with self.postgres.connect() as connection:
            return connection.execute(RESTLESS).fetchone() == (0,)

    def _keep_records(self) -> None:
        with self.postgres.connect() as connection:
            records.read(connection.cursor()).save(self.directory / "records.json")
        summary.keep_facts(self.directory, Limits(skew=self.options.skew))
