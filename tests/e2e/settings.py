"""The test site as a project sets it up: with the desk's front page, and with links."""

import django

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS as APPS

# Before Django's admin, so that the front page has the panel.
INSTALLED_APPS = ["django_stephooks", *(app for app in APPS if app != "django_stephooks")]
ROOT_URLCONF = "tests.e2e.urls"

if django.VERSION >= (6, 1):
    # From this version on there is no default one.
    MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}
