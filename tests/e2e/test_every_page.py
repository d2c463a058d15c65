"""Nothing is wrong with any page: light and dark, on a large screen and on a phone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from .looking import faults, small_targets
from .pages import PAGES


@pytest.mark.parametrize("name", PAGES)
def test_page_is_accessible_and_fits_on_a_phone(name: str, open_as: Callable[..., Page], dana: Any) -> None:
    page = PAGES[name](open_as, dana)
    found = faults(page, name)
    # The lists are Django's own, with Django's own small controls.
    if name.startswith(("link", "hook", "bulk approval", "bulk rejection", "run")):
        found += small_targets(page)
    assert found == []
