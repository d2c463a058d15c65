"""The review desk in Django's admin. Another admin site registers the same two classes."""

from __future__ import annotations

from django.contrib import admin

from django_stephooks.models import Hook, Run

from .hooks import HookAdmin
from .runs import RunAdmin

__all__ = ["HookAdmin", "RunAdmin"]

admin.site.register(Hook, HookAdmin)
admin.site.register(Run, RunAdmin)
