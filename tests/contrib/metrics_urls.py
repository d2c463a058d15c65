"""Where a project may have its metrics."""

from django.urls import include, path

urlpatterns = [path("metrics/", include("django_stephooks.contrib.metrics.urls"))]
