"""Settings of what is measured: as one would set it in production, on PostgreSQL and Redis.

STEPHOOKS_BENCH_DATABASE   the name of a database that is made, used and dropped (stephooks_bench)
STEPHOOKS_BENCH_REDIS      a Redis database that is emptied (redis://127.0.0.1:6379/9)
STEPHOOKS_TEST_POSTGRES_*  HOST, PORT, USER, PASSWORD of the PostgreSQL server, as for the tests
"""

import os

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ.get("STEPHOOKS_BENCH_DATABASE", "stephooks_bench"),
        "HOST": os.environ.get("STEPHOOKS_TEST_POSTGRES_HOST", "127.0.0.1"),
        "PORT": os.environ.get("STEPHOOKS_TEST_POSTGRES_PORT", "5432"),
        "USER": os.environ.get("STEPHOOKS_TEST_POSTGRES_USER", "root"),
        "PASSWORD": os.environ.get("STEPHOOKS_TEST_POSTGRES_PASSWORD", ""),
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
REDIS_URL = os.environ.get("STEPHOOKS_BENCH_REDIS", "redis://127.0.0.1:6379/9")
RQ_QUEUES = {"default": {"URL": REDIS_URL}}

STEPHOOKS = {"SWEEP_INTERVAL": "1s"}

INSTALLED_APPS = [
    "django_stephooks",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_rq",
    "benchmarks",
]
DEBUG = False
SECRET_KEY = "for-measuring-only"
USE_TZ = True
TIME_ZONE = "UTC"
