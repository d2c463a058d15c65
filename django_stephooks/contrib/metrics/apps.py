"""The app: a table of its own, of one row."""

from __future__ import annotations

from django.apps import AppConfig


class MetricsConfig(AppConfig):
    name = "django_stephooks.contrib.metrics"
    label = "stephooks_metrics"
    verbose_name = "Step hooks: metrics"
    default_auto_field = "django.db.models.BigAutoField"
