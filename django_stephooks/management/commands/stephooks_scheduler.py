"""`stephooks_scheduler`: has RQ workers enforce deadlines, fire timers and recover runs."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.utils.module_loading import import_string

from ._arguments import positive_seconds


class Command(BaseCommand):
    help = (
        "Runs a scheduler that queues the sweep every few seconds, and the project's own "
        "rq-scheduler jobs. Stop it with SIGTERM or Ctrl-C; for availability run two."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--interval",
            type=positive_seconds,
            help="Seconds between two sweeps (default: STEPHOOKS['SWEEP_INTERVAL']).",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            # By name: it needs rq-scheduler, and only `runtimes` knows of that.
            run = import_string("django_stephooks.runtimes.scheduler.run")
        except ImportError as error:
            raise CommandError(
                f"The scheduler needs django-rq and rq-scheduler ({error}). "
                "Install them, or run `stephooks_sweep --loop`, which needs neither."
            ) from error
        self.stderr.write("Sweeping. Stop with Ctrl-C.")
        try:
            run(interval=options["interval"])
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
