"""The addresses of the test site."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/stephooks/", include("django_stephooks.api.urls")),
]
