"""Prometheus: put `"django_stephooks.contrib.metrics"` into INSTALLED_APPS (extra `metrics`) and migrate.

Everything is read from the database when it is scraped, so any one process can answer for all of
them, and workers do nothing for it.
"""
