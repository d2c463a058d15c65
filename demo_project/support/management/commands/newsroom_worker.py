"""`rqworker` for a project with agents: their libraries take a second to import, and each job has a fork.

Imported before the first fork, they are there in every one.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django_rq.management.commands import rqworker


class Command(rqworker.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        import_module("demo_project.support.clerk")
        super().handle(*args, **options)
