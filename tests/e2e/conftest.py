"""A site that answers on the network, and Chromium. `make e2e` runs these tests, as a run of their own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.cache import cache
from django.test import Client
from playwright.sync_api import BrowserContext, Page, Playwright, expect

from tests.factories import UserFactory

# Playwright keeps an event loop in the thread of the tests, which also make rows.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # The same letters on each screen.
    "--font-render-hinting=none",
    "--hide-scrollbars",
]
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="session")
def browser_type_launch_args(
    browser_type_launch_args: dict[str, Any], playwright: Playwright
) -> dict[str, Any]:
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None and not os.path.exists(playwright.chromium.executable_path):
        pytest.exit("There is no Chromium (Debian: apt-get install chromium).", returncode=3)
    chosen = {"executable_path": path} if path else {}
    return {**browser_type_launch_args, **chosen, "args": FLAGS}


@pytest.fixture(scope="session")
def base_url() -> None:
    """Instead of pytest-playwright's own, which warns under pytest 9; `open_as` gives the address."""


@pytest.fixture(scope="session")
def browser_context_args(browser_context_args: dict[str, Any]) -> dict[str, Any]:
    return {**browser_context_args, "locale": "en-US", "timezone_id": "UTC"}


@pytest.fixture(autouse=True)
def site(settings: Any, live_server: Any) -> Iterator[str]:
    """Gives the site's address, which links lead to."""
    settings.STEPHOOKS = {**settings.STEPHOOKS, "BASE_URL": live_server.url}
    # What takes longer than this is broken; the default is half a minute.
    expect.set_options(timeout=10_000)
    cache.clear()
    yield live_server.url
    cache.clear()


@pytest.fixture
def dana() -> Any:
    """The least that a reviewer has."""
    return UserFactory(username="dana", reviewer=True)


@pytest.fixture
def open_as(new_context: Callable[..., BrowserContext], site: str) -> Callable[..., Page]:
    """`open_as(user, path)`: a browser in which this user is logged in (None: nobody), at this page."""

    def open_page(user: Any, path: str = "", **options: Any) -> Page:
        context = new_context(**{"base_url": site, "viewport": DESKTOP, **options})
        context.set_default_timeout(10_000)
        if user is not None:
            client = Client()
            client.force_login(user)
            name = django_settings.SESSION_COOKIE_NAME
            context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": site}])
        page = context.new_page()
        if path:
            page.goto(path)
        return page

    return open_page
