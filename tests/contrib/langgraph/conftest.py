"""Agents in runs: what their code did is noted in `did`."""

from __future__ import annotations

import pytest

from tests.acceptance.conftest import site
from tests.acceptance.sites import Site
from tests.engine.conftest import did, no_worker

from . import worker_settings

__all__ = ["did", "no_worker", "site"]


@pytest.fixture
def support_site(site: Site) -> Site:
    """A site whose workers know these agents."""
    site.settings_module = worker_settings.__name__
    return site
