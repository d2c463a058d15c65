"""System checks: what `manage.py check` says about a project's use of this package.

Each has an id and is explained in docs/reference/checks.md under an anchor of that name.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from datetime import timedelta
from importlib.util import find_spec
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connections, router
from django.utils import timezone
from django.utils.module_loading import import_string

from . import registry
from .conf import DEFAULTS, DURATIONS, app_settings
from .durations import describe, parse_duration

TAG = "stephooks"
SCHEDULER = "django_stephooks.runtimes.scheduler.SweepScheduler"

COUNTS = (
    "MAX_RECOVERIES",
    "SWEEP_BATCH",
    "MAX_PAYLOAD_BYTES",
    "MAX_CHECKPOINT_BYTES",
    "MAX_CHUNK_BYTES",
    "STREAM_LENGTH",
    "STREAM_THREADS",
    "BULK_LIMIT",
)
MAY_BE_ZERO = {"MAX_RECOVERIES", "DEPLOY_GRACE", "STREAM_THREADS"}
SWITCHES = ("ALLOW_SELF_REVIEW", "LINK_REQUIRES_LOGIN")


def register() -> None:
    """Called once, when Django has loaded the app."""
    for check in (
        check_names_of_settings,
        check_values_of_settings,
        check_runtime,
        check_queues,
        check_scheduler,
        check_time_zone,
        check_names_are_unique,
        check_links,
        check_sqlite,
    ):
        checks.register(check, TAG)
    checks.register(check_last_sweep, TAG, checks.Tags.database)


def _error(number: str, message: str, hint: str) -> CheckMessage:
    return checks.Error(message, hint=_with_anchor(hint, number), id=f"stephooks.{number}")


def _warning(number: str, message: str, hint: str) -> CheckMessage:
    return checks.Warning(message, hint=_with_anchor(hint, number), id=f"stephooks.{number}")


def _with_anchor(hint: str, number: str) -> str:
    return f"{hint} See docs/reference/checks.md#stephooks-{number.lower()}"


def _configured() -> dict[str, Any]:
    configured = getattr(settings, "STEPHOOKS", {})
    return configured if isinstance(configured, dict) else {}


def check_names_of_settings(**kwargs: Any) -> list[CheckMessage]:
    configured = getattr(settings, "STEPHOOKS", {})
    if not isinstance(configured, dict):
        return [_error("E001", f"STEPHOOKS is a {type(configured).__name__}.", "It must be a dictionary.")]
    messages = []
    for name in configured:
        if name in DEFAULTS:
            continue
        near = difflib.get_close_matches(str(name).upper(), DEFAULTS, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(sorted(DEFAULTS))}."
        messages.append(_error("E001", f"STEPHOOKS has no setting {name!r}.", hint))
    return messages


def check_values_of_settings(**kwargs: Any) -> list[CheckMessage]:
    messages = []
    for name, value in _configured().items():
        wrong = _what_is_wrong(name, value)
        if wrong:
            messages.append(
                _error("E002", wrong, f"Set STEPHOOKS[{name!r}] to something like {DEFAULTS[name]!r}.")
            )
    return messages


def _what_is_wrong(name: str, value: Any) -> str:
    if name in DURATIONS:
        try:
            parse_duration(value, name=name, allow_zero=name in MAY_BE_ZERO)
        except ValueError as error:
            return str(error)
    if name in COUNTS:
        least = 0 if name in MAY_BE_ZERO else 1
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            return f"{name}: {value!r} is not a whole number of at least {least}."
    if name in SWITCHES and not isinstance(value, bool):
        return f"{name}: {value!r} is neither True nor False."
    if name == "QUEUE" and (not isinstance(value, str) or not value):
        return f"{name}: {value!r} is not the name of a queue."
    if name == "LINK_THROTTLE":
        from .review.throttle import parse_rate

        try:
            parse_rate(value)
        except ValueError as error:
            return f"{name}: {error}"
    if name == "API_THROTTLES":
        return _what_is_wrong_with_rates(value)
    if name == "BASE_URL" and value and not str(value).startswith(("http://", "https://")):
        return f"{name}: {value!r} does not begin with 'https://'."
    return ""


def _what_is_wrong_with_rates(rates: Any) -> str:
    from .review.throttle import parse_rate

    if not isinstance(rates, dict):
        return f"API_THROTTLES: {rates!r} is no dictionary of rates by scope."
    known = DEFAULTS["API_THROTTLES"]
    for scope, rate in rates.items():
        if scope not in known:
            return f"API_THROTTLES: there is no scope {scope!r}; there are {', '.join(known)}."
        try:
            parse_rate(rate)
        except ValueError as error:
            return f"API_THROTTLES, {scope}: {error}"
    return ""


def check_runtime(**kwargs: Any) -> list[CheckMessage]:
    from .runtimes.base import get_runtime

    if app_settings.RUNTIME == "rq":
        if find_spec("django_rq") is None:
            return [
                _error(
                    "E003",
                    "STEPHOOKS['RUNTIME'] is 'rq', but django-rq is not there.",
                    _INSTALL_HINT,
                )
            ]
        if not apps.is_installed("django_rq"):
            return [
                _error(
                    "E003",
                    "STEPHOOKS['RUNTIME'] is 'rq', but django_rq is not in INSTALLED_APPS.",
                    "Without it there is no `rqworker` command: nobody would work on the runs.",
                )
            ]
    try:
        get_runtime()
    except ImproperlyConfigured as error:
        return [_error("E004", str(error), "Without a runtime no run ever begins.")]
    return []


_INSTALL_HINT = "Install django-rq, or set STEPHOOKS['RUNTIME'] to 'inline'."


def check_queues(**kwargs: Any) -> list[CheckMessage]:
    if app_settings.RUNTIME != "rq":
        return []
    existing = list(getattr(settings, "RQ_QUEUES", None) or {})
    messages = []
    for queue, users in sorted(_queues_in_use().items()):
        if queue not in existing:
            near = difflib.get_close_matches(queue, existing, n=1)
            messages.append(
                _error(
                    "E005",
                    f"Queue {queue!r}, used by {', '.join(users)}, is not in RQ_QUEUES.",
                    (f"Did you mean {near[0]!r}? " if near else "")
                    + f"RQ_QUEUES has: {', '.join(map(repr, existing)) or 'none'}.",
                )
            )
    return messages


def _queues_in_use() -> dict[str, list[str]]:
    queues = {str(app_settings.QUEUE): ["STEPHOOKS['QUEUE']"]}
    if app_settings.MAIL_QUEUE:
        queues.setdefault(str(app_settings.MAIL_QUEUE), []).append("STEPHOOKS['MAIL_QUEUE']")
    for definition in registry.definitions():
        queue = getattr(definition, "queue", None)
        if queue:
            queues.setdefault(queue, []).append(definition.name)
    return queues


def check_scheduler(**kwargs: Any) -> list[CheckMessage]:
    if app_settings.RUNTIME != "rq" or not apps.is_installed("django_rq"):
        return []
    if find_spec("rq_scheduler") is None:
        return [
            _warning(
                "W001",
                "rq-scheduler is not installed: nothing here can start the sweep from RQ.",
                "Install it, or run `manage.py stephooks_sweep --loop` beside the workers.",
            )
        ]
    chosen = getattr(settings, "RQ", {}).get("SCHEDULER_CLASS")
    if chosen is None or _sweeps(chosen):
        return []
    # An own class says that plain `rqscheduler` is run, and that one would not sweep.
    return [
        checks.Info(
            f"RQ['SCHEDULER_CLASS'] is {chosen!r}, which does not start the sweep.",
            hint=_with_anchor(
                f"Derive it from {SCHEDULER}, or run `manage.py stephooks_scheduler` as well.",
                "I001",
            ),
            id="stephooks.I001",
        )
    ]


def _sweeps(chosen: Any) -> bool:
    if isinstance(chosen, str):
        try:
            chosen = import_string(chosen)
        except ImportError:
            return False
    classes = getattr(chosen, "__mro__", ())
    return any(f"{cls.__module__}.{cls.__qualname__}" == SCHEDULER for cls in classes)


def check_time_zone(**kwargs: Any) -> list[CheckMessage]:
    if settings.USE_TZ:
        return []
    return [
        _error(
            "E006",
            "USE_TZ is False: a deadline would jump when the clocks change.",
            "Set USE_TZ = True.",
        )
    ]


def check_names_are_unique(**kwargs: Any) -> list[CheckMessage]:
    return [
        _error(
            "E007",
            f"Two workflows or steps are called {name!r}: {first} and {second}.",
            "Give one of them another name=, or runs could go on in the wrong one.",
        )
        for name, first, second in registry.conflicts()
    ]


def check_links(**kwargs: Any) -> list[CheckMessage]:
    """Mail with links needs both the page that they lead to and the address of the site."""
    from django.urls import NoReverseMatch, reverse

    from .links import URL_NAME

    try:
        has_page = bool(getattr(settings, "ROOT_URLCONF", "") and reverse(URL_NAME, args=["x"]))
    except NoReverseMatch:
        has_page = False
    has_address = bool(app_settings.BASE_URL) or apps.is_installed("django.contrib.sites")
    if has_page and not has_address:
        return [
            _warning(
                "W004",
                "Links to review pages can not be mailed: this site's address is not known.",
                "Set STEPHOOKS['BASE_URL'] to something like 'https://www.example.com'.",
            )
        ]
    if app_settings.BASE_URL and not has_page:
        return [
            _warning(
                "W005",
                "STEPHOOKS['BASE_URL'] is set, but links to review pages lead nowhere.",
                'Add path("review/", include("django_stephooks.review.urls")) to the URLconf.',
            )
        ]
    return []


def check_sqlite(**kwargs: Any) -> list[CheckMessage]:
    from .models import Run

    alias = router.db_for_write(Run)
    connection = connections[alias]
    if connection.vendor != "sqlite":
        return []
    options = connection.settings_dict.get("OPTIONS", {})
    missing = []
    if str(options.get("transaction_mode", "")).upper() != "IMMEDIATE":
        missing.append('"transaction_mode": "IMMEDIATE"')
    # Nothing waits for a database in memory, and it can not have a write-ahead log.
    if "wal" not in str(options.get("init_command", "")).lower() and not _is_in_memory(connection):
        missing.append('"init_command": "PRAGMA journal_mode=WAL;"')
    if not missing:
        return []
    return [
        _warning(
            "W002",
            f"The SQLite database {alias!r} will often say 'database is locked' when workers and "
            "web requests write at once.",
            f"Add {' and '.join(missing)} to its OPTIONS.",
        )
    ]


def _is_in_memory(connection: Any) -> bool:
    return bool(connection.is_in_memory_db())


def check_last_sweep(*, databases: Sequence[str] | None = None, **kwargs: Any) -> Iterable[CheckMessage]:
    from .models import Run, Sweep

    alias = router.db_for_read(Sweep)
    if alias not in (databases or ()):
        return []
    try:
        last = (
            Sweep.objects.using(alias)
            .order_by("-last_swept_at")
            .values_list("last_swept_at", flat=True)
            .first()
        )
        if last is None and not Run.objects.using(alias).exists():
            return []
    except DatabaseError:
        return []  # not migrated yet, which Django itself says
    hint = "Run `manage.py stephooks_scheduler` and a worker, or `manage.py stephooks_sweep --loop`."
    if last is None:
        return [_warning("W003", "Deadlines have never been enforced.", hint)]
    late = timezone.now() - last
    if late < max(Sweep.OVERDUE, 3 * _sweep_interval()):
        return []
    return [
        _warning(
            "W003",
            f"Deadlines are not being enforced since {last:%Y-%m-%d %H:%M:%S %Z} "
            f"({describe(timedelta(seconds=round(late.total_seconds())))}).",
            hint,
        )
    ]


def _sweep_interval() -> timedelta:
    try:
        return parse_duration(app_settings.SWEEP_INTERVAL)
    except ValueError:  # said by check_values_of_settings
        return parse_duration(DEFAULTS["SWEEP_INTERVAL"])
