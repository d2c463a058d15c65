"""The addresses of the API: `path("api/stephooks/", include("django_stephooks.api.urls"))`."""

from __future__ import annotations

from django.urls import path, re_path

from . import answers, hooks, runs, streams
from .base import NoSuchAddress

app_name = "stephooks-api"

urlpatterns = [
    path("hooks/", hooks.HookList.as_view(), name="hooks"),
    path("hooks/<uuid:public_id>/", hooks.HookDetail.as_view(), name="hook"),
    path("hooks/<uuid:public_id>/approve/", answers.Approve.as_view(), name="approve"),
    path("hooks/<uuid:public_id>/reject/", answers.Reject.as_view(), name="reject"),
    path("hooks/<uuid:public_id>/resume/", answers.Resume.as_view(), name="resume"),
    path("resume/<str:token>/", answers.ResumeByToken.as_view(), name="resume-by-token"),
    path("stream/<str:token>/", streams.StreamByToken.as_view(), name="stream-by-token"),
    path("runs/", runs.RunList.as_view(), name="runs"),
    path("runs/<uuid:public_id>/", runs.RunDetail.as_view(), name="run"),
    path("runs/<uuid:public_id>/events/", runs.RunEvents.as_view(), name="events"),
    path("runs/<uuid:public_id>/stream/", streams.RunStream.as_view(), name="stream"),
    path("runs/<uuid:public_id>/cancel/", runs.Cancel.as_view(), name="cancel"),
    path("runs/<uuid:public_id>/retry/", runs.Retry.as_view(), name="retry"),
    path("workflows/<str:name>/start/", runs.Start.as_view(), name="start"),
    re_path("", NoSuchAddress.as_view()),
]
