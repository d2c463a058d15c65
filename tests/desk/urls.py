"""A site that has every face: the admin, the page of review links, and the API."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/stephooks/", include("django_stephooks.api.urls")),
    path("review/", include("django_stephooks.review.urls")),
]
