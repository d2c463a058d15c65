"""`stephooks_sweep`: enforces deadlines, fires timers and recovers runs; without Redis."""

from __future__ import annotations

import dataclasses
import logging
import signal
import time
from argparse import ArgumentParser
from typing import Any

import django.db
from django.core.management.base import BaseCommand
from django.db import close_old_connections

from django_stephooks.conf import app_settings
from django_stephooks.durations import parse_duration
from django_stephooks.services.sweep import seconds_until_due, sweep

from ._arguments import positive_seconds

logger = logging.getLogger("django_stephooks")

LONGEST_PAUSE = 60
# What is still due after a sweep is held by somebody, who will let go of it.
SHORTEST_PAUSE = 0.25


class Command(BaseCommand):
    help = "Makes one pass over what is due, or with --loop one every few seconds for ever."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--loop", action="store_true", help="Go on until SIGTERM or Ctrl-C.")
        parser.add_argument(
            "--interval",
            type=positive_seconds,
            help="With --loop: seconds between two passes (default: STEPHOOKS['SWEEP_INTERVAL']).",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["loop"]:
            self.stdout.write(str(sweep()))
            return
        interval = options["interval"]
        if interval is None:
            interval = parse_duration(app_settings.SWEEP_INTERVAL).total_seconds()
        before = signal.signal(signal.SIGTERM, _stop)
        try:
            self._loop(interval)
        except (KeyboardInterrupt, SystemExit):
            self.stderr.write("Stopped.")
        finally:
            signal.signal(signal.SIGTERM, before)

    def _loop(self, interval: float) -> None:
        pause = interval
        while True:
            close_old_connections()
            try:
                result = sweep()
                due = seconds_until_due(longest=interval)
            except django.db.Error as error:
                # A restarting database is waited for; everything else is a bug and ends the loop.
                logger.warning("The sweep could not use the database: %s", error)
                pause = min(2 * max(pause, interval), LONGEST_PAUSE)
            else:
                pause = max(due, min(SHORTEST_PAUSE, interval))
                if any(dataclasses.astuple(result)):
                    self.stdout.write(str(result))
            time.sleep(pause)


def _stop(signum: int, frame: Any) -> None:
    raise SystemExit
