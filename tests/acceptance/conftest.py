"""A site with real processes, for the tests that ask for one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from django_stephooks.runtimes import rq

from . import worker_settings
from .sites import Site


@pytest.fixture
def site(
    transactional_db: None, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    monkeypatch.setattr(rq, "_here", rq._Process())
    with tempfile.TemporaryDirectory(prefix="stephooks-") as directory:
        socket_path = Path(directory) / "redis.sock"
        settings.STEPHOOKS = worker_settings.STEPHOOKS
        settings.RQ_QUEUES = {"default": {"UNIX_SOCKET_PATH": str(socket_path), "DB": 0}}
        it = Site(tmp_path, socket_path)
        try:
            yield it
        finally:
            it.close()
            for _, client in rq._here._clients:
                client.close()
