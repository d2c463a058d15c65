"""`stephooks_worker`: makes the turns of runs; a worker of RQ that is tuned for that."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.utils.module_loading import import_string

from django_stephooks.conf import app_settings

from ._arguments import count, positive_seconds

LEVELS = {0: "WARNING", 1: "INFO"}


class Command(BaseCommand):
    help = (
        "Works on RQ queues as rqworker does, without a fork for each job. SIGTERM or Ctrl-C: it finishes "
        "the turn at hand and ends; asked again, it hands the turn back and ends at once."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "queues",
            nargs="*",
            help="Names in RQ_QUEUES, the most urgent first (default: those of STEPHOOKS).",
        )
        parser.add_argument(
            "--processes", type=count, default=1, help="How many work side by side (default: 1)."
        )
        parser.add_argument(
            "--max-turns", type=count, help="A process that made so many turns is replaced by a new one."
        )
        parser.add_argument(
            "--max-memory",
            type=count,
            metavar="MIB",
            help="A process that holds so many MiB after a turn is replaced by a new one.",
        )
        parser.add_argument(
            "--grace",
            type=positive_seconds,
            help="When told to stop, hand back a turn that takes longer than this to end (default: wait).",
        )
        parser.add_argument("--burst", action="store_true", help="End when there is nothing to do.")
        parser.add_argument(
            "--with-scheduler", action="store_true", help="Also queue the jobs of RQ's own scheduler."
        )
        parser.add_argument("--name", default="", help="What the workers' names begin with.")
        parser.add_argument("--job-class", help="As for rqworker.")
        parser.add_argument("--queue-class", help="As for rqworker.")
        parser.add_argument("--serializer", help="As for rqworker (default: the queue's own).")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            # By name: they need RQ, and only `runtimes` knows of that.
            main, work, limits = (
                import_string(f"django_stephooks.runtimes.{path}")
                for path in ("working.main", "working.Work", "limits.Limits")
            )
        except ImportError as error:
            raise CommandError(f"The worker needs django-rq ({error}). Install it.") from error
        memory = options["max_memory"]
        names = ("job_class", "queue_class", "serializer")
        try:
            status = main(
                work(
                    queues=tuple(options["queues"] or _own_queues()),
                    burst=options["burst"],
                    with_scheduler=options["with_scheduler"],
                    name=options["name"],
                    grace=options["grace"],
                    logging_level=LEVELS.get(options["verbosity"], "DEBUG"),
                    limits=limits(max_turns=options["max_turns"], max_memory=memory and memory << 20),
                    worker_options={name: options[name] for name in names if options[name]},
                ),
                processes=options["processes"],
            )
        except (ImproperlyConfigured, ConnectionError) as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            status = 0  # it came while there was no worker yet
        if status:
            raise SystemExit(status)


def _own_queues() -> list[str]:
    return list(dict.fromkeys(filter(None, [app_settings.QUEUE, app_settings.MAIL_QUEUE])))
