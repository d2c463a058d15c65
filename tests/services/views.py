"""The URLs of a site whose views start and answer: for requests that are one transaction each."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import path

from django_stephooks import resume_hook
from tests.app import workflows


def start(request: HttpRequest) -> HttpResponse:
    workflows.question.start()
    if "break" in request.GET:
        raise ZeroDivisionError
    return HttpResponse("started")


def answer(request: HttpRequest, token: str) -> HttpResponse:
    resume_hook(token, "yes")
    if "break" in request.GET:
        raise ZeroDivisionError
    return HttpResponse("answered")


urlpatterns = [path("start/", start), path("answer/<token>/", answer)]
