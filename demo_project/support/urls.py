"""URLs of the readers' desk."""

from django.urls import path

from . import views

app_name = "support"
urlpatterns = [
    path("", views.conversation, name="start"),
    path("<uuid:pk>/", views.conversation, name="conversation"),
]
