"""URLs of the newsroom."""

from django.urls import path

from . import views

app_name = "newsroom"
urlpatterns = [
    path("", views.front, name="front"),
    path("start/", views.start, name="start"),
    path("stories/<int:pk>/", views.story, name="story"),
    path("stories/<int:pk>/withdraw/", views.withdraw, name="withdraw"),
]
