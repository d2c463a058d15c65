"""`stephooks_doctor`: is everything there that runs need? Each line is ok, or says what to do."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from django_stephooks.services.health import diagnose


class Command(BaseCommand):
    help = "Looks at database, Redis, workers, scheduler and sweep. Exit status 1 if something is to be done."

    def handle(self, *args: Any, **options: Any) -> None:
        wrong = 0
        for finding in diagnose():
            mark = self.style.SUCCESS("ok  ") if finding.ok else self.style.ERROR("todo")
            self.stdout.write(f"{mark} {finding.subject}: {finding.text}")
            wrong += not finding.ok
        if wrong:
            raise SystemExit(1)
