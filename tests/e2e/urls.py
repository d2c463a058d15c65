"""A site with the desk and with the page of review links."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("review/", include("django_stephooks.review.urls")),
    path("admin/", admin.site.urls),
]
