"""Settings of the processes that `test_real_workers` starts: over RQ, and quick to give up on the dead."""

import os

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES
from tests.settings import INSTALLED_APPS as _APPS

# For tests of workers that keep their connections: seconds, as in CONN_MAX_AGE.
DATABASES["default"]["CONN_MAX_AGE"] = int(os.environ.get("STEPHOOKS_TEST_CONN_MAX_AGE", "0"))

# With its workflows.py, which a worker finds as it finds those of any app.
INSTALLED_APPS = [*_APPS, "tests.acceptance"]
STEPHOOKS = {
    "RUNTIME": "rq",
    "LEASE": "2s",
    "READY_GRACE": "0.3s",
    "SWEEP_INTERVAL": "0.5s",
    "JOB_TIMEOUT": "60s",
}
