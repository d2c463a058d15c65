"""A site with the page of review links."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("review/", include("django_stephooks.review.urls")),
    path("accounts/", include("django.contrib.auth.urls")),
    path("admin/", admin.site.urls),
]
