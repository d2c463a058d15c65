"""The pictures in docs/images. `make screenshots` makes them; they are no tests and no test run takes them.

The clock stands still, so that the same pages give the same pictures.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core import mail
from playwright.sync_api import Page

from tests.admin.pages import HOOKS, address
from tests.clock import Clock
from tests.review.visiting import path_of

from . import newsroom
from .conftest import DESKTOP, PHONE
from .pages import bulk, some_hooks

IMAGES = Path(__file__).resolve().parent.parent.parent / "docs" / "images"
LETTER = {"width": 680, "height": 420}

Open = Callable[..., Page]


@pytest.fixture(autouse=True)
def standing_still(clock: Clock, settings: Any) -> None:
    settings.STEPHOOKS = {**settings.STEPHOOKS, "BASE_URL": "https://newsroom.example.org"}


def save(page: Page, name: str, *, whole: bool = False) -> None:
    page.evaluate("document.activeElement?.blur()")
    page.screenshot(path=IMAGES / f"{name}.png", full_page=whole, animations="disabled", scale="css")


def test_mail(open_as: Open) -> None:
    newsroom.ask(recipients=[newsroom.DANA])
    ((html, _kind),) = mail.outbox[0].alternatives
    page = open_as(None, viewport=LETTER)
    page.set_content(re.sub(r"/review/\w+", "/review/3kTq0pVb7…", html))
    save(page, "mail")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_link(open_as: Open, scheme: str) -> None:
    page = open_as(None, path_of(newsroom.ask()), viewport=PHONE, color_scheme=scheme)
    page.get_by_label("Comment").fill("Well checked.")
    save(page, f"link-{scheme}", whole=True)


def test_thanks(open_as: Open) -> None:
    page = open_as(None, path_of(newsroom.ask()), viewport=PHONE)
    page.get_by_label("Comment").fill("Well checked.")
    page.get_by_role("button", name="Approve").click()
    page.get_by_role("heading", name="You approved this.").wait_for()
    save(page, "link-thanks")


def test_list(open_as: Open, dana: Any) -> None:
    some_hooks(dana)
    save(open_as(dana, HOOKS, viewport={**DESKTOP, "height": 760}), "list")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_hook(open_as: Open, dana: Any, scheme: str) -> None:
    hook = newsroom.ask()
    newsroom.ask()
    page = open_as(dana, address(hook), viewport=DESKTOP, color_scheme=scheme)
    page.get_by_label("Comment").fill("Well checked.")
    save(page, f"hook-{scheme}")


def test_hook_on_a_phone(open_as: Open, dana: Any) -> None:
    save(open_as(dana, address(newsroom.ask()), viewport=PHONE), "hook-phone")


def test_bulk(open_as: Open, dana: Any) -> None:
    page = bulk(open_as, dana, "Approve selected…")
    page.get_by_label("Comment").fill("All well checked.")
    save(page, "bulk")
