"""Include it where you like: `path("metrics/", include("django_stephooks.contrib.metrics.urls"))`."""

from django.urls import path

from . import views

app_name = "stephooks-metrics"
urlpatterns = [path("", views.metrics, name="metrics")]
