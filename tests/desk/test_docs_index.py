"""The first page of the documentation leads to every other one, and calls it what it calls itself."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_every_page_is_in_the_index_by_its_title() -> None:
    links = re.findall(r"\[([^]]+)\]\((\S+?\.md)\)", (DOCS / "index.md").read_text())
    found = {DOCS / target: title for title, target in links if not target.startswith("..")}
    titles = {
        page: page.read_text().splitlines()[0].removeprefix("# ")
        for page in DOCS.rglob("*.md")
        if page.name != "index.md"
    }
    assert found == titles
