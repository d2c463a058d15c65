"""The `STEPHOOKS` setting: defaults, and one object that reads it anew at each access.

Nothing is frozen at import, so `override_settings(STEPHOOKS={...})` works in every test.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings

DEFAULTS: dict[str, Any] = {
    # How turns get a worker: "rq", "inline", or the dotted path of a Runtime.
    "RUNTIME": "rq",
    # The queue (a name in RQ_QUEUES) of workflows that name none, and of the sweep.
    "QUEUE": "default",
    # How long a worker may be silent before its run is given to another one.
    "LEASE": "60s",
    # How long one turn may take, unless the workflow says otherwise.
    "JOB_TIMEOUT": "10m",
    # How many crashed turns in a row are made good before the run fails.
    "MAX_RECOVERIES": 3,
    # How long a run that no worker can work on (yet) is kept for one of another release.
    "DEPLOY_GRACE": "10m",
    "SWEEP_INTERVAL": "5s",
    "SWEEP_BATCH": 500,
    # A run that is ready for longer than this without a worker gets another ring of the bell.
    "READY_GRACE": "10s",
    # One worker's job goes on with further ready runs for about this long.
    "BATCH_SECONDS": "5s",
    "MAX_PAYLOAD_BYTES": 256 * 1024,
    "MAX_CHECKPOINT_BYTES": 16 * 1024 * 1024,
    # What a step may emit at once, …
    "MAX_CHUNK_BYTES": 16 * 1024,
    # … how many of the last chunks of a run are kept, and for how long after its end.
    "STREAM_LENGTH": 10_000,
    "STREAM_KEEP": "1h",
    # How long one request may watch a run; browsers come again. And how many such requests may hold a
    # thread of a WSGI process at the same time: the others are answered at once.
    "STREAM_LIFETIME": "25s",
    "STREAM_THREADS": 4,
    "ALLOW_SELF_REVIEW": False,
    "LINK_REQUIRES_LOGIN": False,
    "BULK_LIMIT": 200,
    # Where links in mail lead: "https://www.example.com". Without it, the site of contrib.sites.
    "BASE_URL": "",
    # The queue of the runs that send mail; "": that of QUEUE.
    "MAIL_QUEUE": "",
    # What Prometheus sends to read metrics; "": only staff who may view runs and hooks can.
    "METRICS_TOKEN": "",
    # Requests to the page of one link (and to links that are none) from one address. None: no limit.
    "LINK_THROTTLE": "60/min",
    # Requests to the REST API, by scope, for each user or address. None: as many as they like.
    "API_THROTTLES": {
        "stephooks-read": "600/min",
        "stephooks-answer": "120/min",
        "stephooks-token": "120/min",
        "stephooks-stream": "600/min",
    },
}

DURATIONS = (
    *("LEASE", "JOB_TIMEOUT", "DEPLOY_GRACE", "SWEEP_INTERVAL", "READY_GRACE", "BATCH_SECONDS"),
    *("STREAM_KEEP", "STREAM_LIFETIME"),
)


class AppSettings:
    """`app_settings.NAME`: the project's `STEPHOOKS["NAME"]`, or the default."""

    def __getattr__(self, name: str) -> Any:
        try:
            default = DEFAULTS[name]
        except KeyError:
            raise AttributeError(f"STEPHOOKS has no setting {name!r}.") from None
        return getattr(settings, "STEPHOOKS", {}).get(name, default)


app_settings = AppSettings()
