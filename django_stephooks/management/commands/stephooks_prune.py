"""`stephooks_prune`: forgets runs that finished long ago; what waits stays."""

from __future__ import annotations

import time
from argparse import ArgumentParser, ArgumentTypeError
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from django_stephooks.durations import parse_duration
from django_stephooks.services.prune import prunable, prune_in_batches

PROGRESS_SECONDS = 5


class Command(BaseCommand):
    help = "Deletes finished runs (completed, failed, cancelled) with their hooks, events and checkpoints."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--older-than",
            type=_age,
            required=True,
            help='How long ago they must have finished: "90d"; 0 for all.',
        )
        parser.add_argument(
            "--batch", type=int, default=1000, help="Runs in one transaction (default: 1000)."
        )
        parser.add_argument("--dry-run", action="store_true", help="Only count them.")

    def handle(self, *args: Any, **options: Any) -> None:
        before = timezone.now() - options["older_than"]
        if options["dry_run"]:
            self.stdout.write(f"{prunable(before)} finished runs would be deleted.")
        else:
            self._prune(before, max(options["batch"], 1))

    def _prune(self, before: datetime, batch: int) -> None:
        deleted, told = 0, time.monotonic()
        try:
            for count in prune_in_batches(before, batch=batch):
                deleted += count
                if time.monotonic() - told >= PROGRESS_SECONDS:
                    self.stderr.write(f"{deleted} so far …")
                    told = time.monotonic()
        except KeyboardInterrupt:
            self.stderr.write("Stopped; call it again to go on.")
        self.stdout.write(f"{deleted} finished runs deleted.")


def _age(text: str) -> timedelta:
    try:
        return parse_duration(int(text) if text.isdigit() else text, name="--older-than", allow_zero=True)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error
