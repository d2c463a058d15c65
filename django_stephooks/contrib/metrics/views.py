"""The page that Prometheus scrapes."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from django_stephooks.conf import app_settings

from .collector import StepHooksCollector

registry = CollectorRegistry()
registry.register(StepHooksCollector())


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """For whoever sends METRICS_TOKEN as a bearer token, or is staff who may view runs and hooks."""
    if not (_has_token(request) or _may_see(request)):
        return HttpResponse(
            "Send METRICS_TOKEN as a bearer token, or log in as staff who may view runs and hooks.\n",
            status=401,
            content_type="text/plain",
            headers={"WWW-Authenticate": 'Bearer realm="metrics"'},
        )
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(registry), content_type=content_type)


def _has_token(request: HttpRequest) -> bool:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    expected = str(app_settings.METRICS_TOKEN)
    return bool(expected) and scheme.lower() == "bearer" and constant_time_compare(token.strip(), expected)


def _may_see(request: HttpRequest) -> bool:
    user = getattr(request, "user", None)
    wanted = ("django_stephooks.view_run", "django_stephooks.view_hook")
    return user is not None and user.is_staff and user.has_perms(wanted)
