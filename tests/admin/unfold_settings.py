"""The test site under another admin theme, django-unfold."""

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS as APPS

INSTALLED_APPS = ["django_stephooks", "unfold", *(app for app in APPS if app != "django_stephooks")]
