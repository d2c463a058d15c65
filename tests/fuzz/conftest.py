"""A site with every door, where nobody counts requests and no worker is there unless a test is one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.services import bells


@pytest.fixture(autouse=True)
def site(settings: Any) -> None:
    settings.ROOT_URLCONF = "tests.desk.urls"
    settings.STEPHOOKS = {
        "RUNTIME": f"{bells.__name__}.NotedBells",
        "BASE_URL": "https://testserver",
        # What can not be read is not left to a worker of another release.
        "DEPLOY_GRACE": "0s",
        "LINK_THROTTLE": None,
        "API_THROTTLES": dict.fromkeys(("stephooks-read", "stephooks-answer", "stephooks-token")),
    }
    bells.rung.clear()
