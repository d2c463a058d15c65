"""URLs of the demo: newsroom and readers' desk in front, the admin behind (with RQ's dashboard inside it)."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("accounts/", include("django.contrib.auth.urls")),
    path("admin/", admin.site.urls),
    path("review/", include("django_stephooks.review.urls")),
    path("api/stephooks/", include("django_stephooks.api.urls")),
    path("support/", include("demo_project.support.urls")),
    path("", include("demo_project.newsroom.urls")),
]
