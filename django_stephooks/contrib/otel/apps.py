"""The switch: while this app is installed, turns and steps are traced."""

from __future__ import annotations

from django.apps import AppConfig

from django_stephooks import observers


class OpenTelemetryConfig(AppConfig):
    name = "django_stephooks.contrib.otel"
    label = "stephooks_otel"
    verbose_name = "Step hooks: tracing"

    def ready(self) -> None:
        from .tracing import tracing

        observers.remove(tracing)  # ready() may be called again
        observers.add(tracing)
