"""Settings of the site under fire; the environment says where its servers are and what its clock says.

CHAOS_DIRECTORY       where the diary, the logs and the Redis socket are
CHAOS_POSTGRES_PORT   the port of the private PostgreSQL
CHAOS_CREW            set in the processes under fire, whose output is kept by whoever starts them
CHAOS_SKEW            by how many seconds this process's clock is wrong
"""

import os
from datetime import timedelta
from pathlib import Path

from django.utils import timezone

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS as _APPS

_directory = Path(os.environ["CHAOS_DIRECTORY"])

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "chaos",
        "HOST": "127.0.0.1",
        "PORT": os.environ["CHAOS_POSTGRES_PORT"],
        "USER": "chaos",
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"connect_timeout": 3},
    }
}
REDIS_SOCKET = str(_directory / "redis.sock")
RQ_QUEUES = {
    name: {"UNIX_SOCKET_PATH": REDIS_SOCKET, "DB": 0, "DEFAULT_TIMEOUT": 60} for name in ("default", "slow")
}
INSTALLED_APPS = [*_APPS, "tests.chaos"]
ROOT_URLCONF = "tests.chaos.urls"
STEPHOOKS = {
    "RUNTIME": "rq",
    # Short, so that what happens when it ends happens often.
    "LEASE": "3s",
    "READY_GRACE": "1s",
    "SWEEP_INTERVAL": "1s",
    "BATCH_SECONDS": "2s",
    "JOB_TIMEOUT": "30s",
    # Whoever is killed again and again is not to blame.
    "MAX_RECOVERIES": 1000,
    "BASE_URL": "http://127.0.0.1",
    "LINK_THROTTLE": None,
    "API_THROTTLES": {"stephooks-read": None, "stephooks-answer": None, "stephooks-token": None},
}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": "plain"},
        "file": {
            "class": "logging.FileHandler",
            "formatter": "plain",
            "filename": _directory / "driver.log",
            "delay": True,
        },
    },
    "root": {"handlers": ["stderr" if "CHAOS_CREW" in os.environ else "file"], "level": "INFO"},
    "loggers": {"django": {"handlers": [], "level": "INFO", "propagate": True}},
}

if _skew := float(os.environ.get("CHAOS_SKEW") or 0):
    _real_now = timezone.now
    timezone.now = lambda: _real_now() + timedelta(seconds=_skew)
