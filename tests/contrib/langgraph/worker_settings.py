"""Settings of real workers that know the agents of these tests."""

from tests.acceptance.worker_settings import *  # noqa: F403
from tests.acceptance.worker_settings import INSTALLED_APPS as _APPS

INSTALLED_APPS = [*_APPS, "tests.contrib.langgraph"]
