"""The doors of the site: the admin, the API, and the page of review links."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/stephooks/", include("django_stephooks.api.urls")),
    path("review/", include("django_stephooks.review.urls")),
]
