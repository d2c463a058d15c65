"""The Django app of the readers' desk."""

from django.apps import AppConfig


class SupportConfig(AppConfig):
    name = "demo_project.support"
    label = "newsroom_support"
    verbose_name = "Readers' desk"
    default_auto_field = "django.db.models.BigAutoField"
