"""What is looked at on each page: whether it is accessible, and whether it fits on a phone.

STEPHOOKS_E2E_PICTURES   a directory: what was looked at is put there, for people to look at, too
"""

from __future__ import annotations

import os
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

SIZES = {"1280 px": {"width": 1280, "height": 900}, "390 px": {"width": 390, "height": 844}}
TOUCH = 44

AXE = Axe().axe_script

# What can be moved sideways: the page itself, or a part of it that hides more to its right.
SIDEWAYS = """() => [...document.querySelectorAll('html, body, body *')].filter(e => {
    const style = getComputedStyle(e), isPage = e === document.documentElement;
    return (isPage || ['auto', 'scroll'].includes(style.overflowX))
        && e.tagName !== 'PRE' && e.tagName !== 'TEXTAREA' && e.scrollWidth > e.clientWidth + 1
        && e.getClientRects().length;
}).map(e => `${e.tagName}.${e.className} ${e.scrollWidth} > ${e.clientWidth}`)"""

SMALL_TARGETS = """([within, least]) => [...document.querySelectorAll(within)].flatMap(root =>
    [...root.querySelectorAll('button, select, textarea, summary, input:not([type=hidden])')]
).filter(e => {
    const box = (e.closest('label') ?? e).getBoundingClientRect();
    return e.checkVisibility() && box.width > 1 && box.height < least - 0.5
        && !['checkbox', 'radio'].includes(e.type);
}).map(e => `${e.tagName} ${e.textContent.trim().slice(0, 30)} ${e.getBoundingClientRect().height}`)"""


def faults(page: Page, name: str) -> list[str]:
    """What is wrong with a page, in light and dark, on a large screen and on a phone."""
    found = []
    for size, viewport in SIZES.items():
        page.set_viewport_size(viewport)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            # Colors on their way to others are none that a page has.
            page.evaluate("document.getAnimations().forEach(animation => animation.finish())")
            found += [f"{scheme}, {size}: {fault}" for fault in violations(page)]
            if folder := os.environ.get("STEPHOOKS_E2E_PICTURES"):
                page.screenshot(path=f"{folder}/{name} {size} {scheme}.png", full_page=True)
    found += [f"moves sideways: {what}" for what in page.evaluate(SIDEWAYS)]
    return found


def violations(page: Page) -> list[str]:
    """What axe finds."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    response = page.evaluate("axe.run({resultTypes: ['violations']})")
    return [
        f"{violation['id']}: {node['html'][:200]} {_summary(node)}"
        for violation in response["violations"]
        for node in violation["nodes"]
    ]


def _summary(node: dict[str, Any]) -> str:
    return " ".join(str(node.get("failureSummary", "")).split())


def small_targets(page: Page, within: str = "main") -> list[str]:
    """What is smaller than a finger."""
    found: list[str] = page.evaluate(SMALL_TARGETS, [within, TOUCH])
    return found
