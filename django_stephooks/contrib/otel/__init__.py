"""OpenTelemetry: put `"django_stephooks.contrib.otel"` into INSTALLED_APPS (extra `otel`).

A span for each turn with its steps inside, linked to the turn that suspended the run, and to
whoever started it or answered. Needs opentelemetry-api; what becomes of spans is the project's SDK.
"""
