"""The Django app: finds every installed app's `workflows.py` and registers the system checks."""

from __future__ import annotations

import logging

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class StepHooksConfig(AppConfig):
    name = "django_stephooks"
    verbose_name = "Step hooks"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from . import checks

        checks.register()
        autodiscover_modules("workflows")
        if logging.getLogger("django_stephooks.events").isEnabledFor(logging.INFO):
            from .contrib import logs

            logs.connect()
