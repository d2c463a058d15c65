"""Settings of the test site; the environment chooses the database.

STEPHOOKS_TEST_DB            sqlite (default), postgres or mariadb
STEPHOOKS_TEST_DB_NAME       the database's name (tests run in test_<name>); for SQLite a path
STEPHOOKS_TEST_POSTGRES_*    HOST, PORT, USER, PASSWORD of the PostgreSQL server
STEPHOOKS_TEST_MARIADB_*     the same of the MariaDB server
STEPHOOKS_TEST_REDIS_SOCKET  the unix socket of a Redis; the fixture `redis_socket` starts one there
"""

import os
import secrets
import tempfile
from pathlib import Path
from typing import Any

import django


def _server(prefix: str, **defaults: str) -> dict[str, str]:
    names = ("HOST", "PORT", "USER", "PASSWORD")
    return {name: os.environ.get(f"STEPHOOKS_TEST_{prefix}_{name}", defaults.get(name, "")) for name in names}


def _database(kind: str, name: str) -> dict[str, Any]:
    if kind == "postgres":
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": name or "stephooks",
            **_server("POSTGRES", HOST="127.0.0.1", PORT="5432", USER="root"),
        }
    if kind == "mariadb":
        import pymysql

        pymysql.install_as_MySQLdb()
        return {
            "ENGINE": "django.db.backends.mysql",
            "NAME": name or "stephooks",
            **_server("MARIADB", HOST="127.0.0.1", PORT="3306", USER="root"),
            "OPTIONS": {"charset": "utf8mb4"},
            "TEST": {"CHARSET": "utf8mb4", "COLLATION": "utf8mb4_bin"},
        }
    if kind == "sqlite":
        path = Path(name) if name else SCRATCH / "stephooks.sqlite3"
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": path,
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            },
            # A file, because threads and child processes do not see a database in memory.
            "TEST": {"NAME": path.with_name(f"test_{path.name}")},
        }
    raise ValueError(f"STEPHOOKS_TEST_DB is {kind!r}; it can be sqlite, postgres or mariadb.")


# A directory of this process. tests/conftest.py makes and removes it: others, such as mypy, only
# read these settings, and a worker of pytest-xdist ends without calling atexit.
SCRATCH = Path(tempfile.gettempdir()) / f"stephooks-{os.getpid()}-{secrets.token_hex(4)}"

DATABASES = {
    "default": _database(
        os.environ.get("STEPHOOKS_TEST_DB") or "sqlite",
        os.environ.get("STEPHOOKS_TEST_DB_NAME", ""),
    )
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Known before anything listens there: settings are read once, the server is started on demand.
REDIS_SOCKET = os.environ.get("STEPHOOKS_TEST_REDIS_SOCKET") or str(SCRATCH / "redis.sock")
RQ_QUEUES = {
    name: {"UNIX_SOCKET_PATH": REDIS_SOCKET, "DB": 0, "DEFAULT_TIMEOUT": 60} for name in ("default", "slow")
}

STEPHOOKS = {"RUNTIME": "inline"}

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "django_rq",
    "django_stephooks",
    "django_stephooks.contrib.metrics",
    "tests.app",
    "demo_project.newsroom",
    "demo_project.support",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
ROOT_URLCONF = "tests.urls"
STATIC_URL = "static/"
SECRET_KEY = "for-the-tests-only"
ALLOWED_HOSTS = ["*"]
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-us"
if django.VERSION >= (6, 1):
    # Before, the test runner sees to it.
    MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
