"""The Django app of the newsroom."""

from django.apps import AppConfig


class NewsroomConfig(AppConfig):
    name = "demo_project.newsroom"
    verbose_name = "Newsroom"
    default_auto_field = "django.db.models.BigAutoField"
