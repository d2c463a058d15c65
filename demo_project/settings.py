"""Settings of the demo: nothing but Python, one SQLite file, and a Redis on a unix socket.

The launcher (``python -m demo_project``) sets the environment read here. Without it,
``python manage.py …`` works too: with no Redis to ring, turns run in the calling process.
"""

import os
from pathlib import Path

import django

BASE_DIR = Path(__file__).resolve().parent.parent

# Everything that the demo writes is in one directory: the database, the mail, the logs.
DEMO_DIR = Path(os.environ.get("DEMO_DIR", BASE_DIR / ".demo"))
DEMO_DIR.mkdir(parents=True, exist_ok=True)
DEMO_PORT = int(os.environ.get("DEMO_PORT", "8000"))
REDIS_SOCKET = os.environ.get("DEMO_REDIS_SOCKET", "")

DEBUG = True
SECRET_KEY = "for-the-demo-only-and-public-never-use-it-elsewhere"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-us"

INSTALLED_APPS = [
    # Before the admin, to whose front page it adds what awaits one's review.
    "django_stephooks",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "django_rq",
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
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "demo_project.urls"
WSGI_APPLICATION = "demo_project.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
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

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DEMO_DIR / "newsroom.sqlite3",
        "OPTIONS": {
            # A transaction that begins by reading and then writes cannot be queued by SQLite: it
            # fails with "database is locked". Taking the write lock at its start makes it wait.
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            # With a write-ahead log the web server reads while the worker writes.
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

STATIC_URL = "static/"

LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "newsroom:front"
LOGOUT_REDIRECT_URL = "newsroom:front"
# Browsers do not tell ports apart in cookies: two demos side by side would log each other out.
SESSION_COOKIE_NAME = f"newsroom-{DEMO_PORT}"

MAIL_DIR = DEMO_DIR / "mail"
if django.VERSION >= (6, 1):
    MAILERS = {"default": {"BACKEND": "demo_project.mailbox.EmailBackend"}}
else:
    EMAIL_BACKEND = "demo_project.mailbox.EmailBackend"
DEFAULT_FROM_EMAIL = "newsroom@example.com"

RQ_QUEUES = {
    "default": {"UNIX_SOCKET_PATH": REDIS_SOCKET or str(DEMO_DIR / "redis.sock"), "DB": 0},
}

STEPHOOKS = {
    "RUNTIME": "rq" if REDIS_SOCKET else "inline",
    # Short, so that a killed worker's story goes on while you are still looking.
    "LEASE": "5s",
    "SWEEP_INTERVAL": "1s",
    "READY_GRACE": "2s",
    # Where the links in mails lead.
    "BASE_URL": f"http://127.0.0.1:{DEMO_PORT}",
}

# How long a step pretends to work, in seconds, so that a person can follow it; and how long the
# fact check takes of a story whose trouble is a slow fact checker.
NEWSROOM_PACE = float(os.environ.get("NEWSROOM_PACE", "0"))
NEWSROOM_SLOW = float(os.environ.get("NEWSROOM_SLOW", "30"))
