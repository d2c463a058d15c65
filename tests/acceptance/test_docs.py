"""The Python that the pages of docs/ show is executed, page by page, and so are the tests it defines."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if "```python" in page.read_text())
LINK = re.compile(r"\]\(([^)#:]+)(?:#([^)]*))?\)")


@pytest.fixture
def module() -> Iterator[types.ModuleType]:
    """Where a page's code lives; settings that a page adds to are there as a project would have them."""
    module = types.ModuleType("documented")
    module.__dict__.update(INSTALLED_APPS=[], DATABASES={"default": {}}, MIDDLEWARE=[])
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_its_code_runs(page: Path, module: types.ModuleType):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    for block in blocks:
        # A bare mapping entry ("OPTIONS": {…}) is the inside of a dictionary.
        source = f"{{{block}}}" if block.startswith('"') else block
        exec(compile(source, str(page), "exec"), module.__dict__)
    for name, value in list(module.__dict__.items()):
        if name.startswith("test_"):
            value()


@pytest.mark.parametrize(
    "page", [*sorted(DOCS.rglob("*.md")), DOCS.parent / "README.md"], ids=lambda page: page.name
)
def test_its_links_lead_somewhere(page: Path):
    for target, _anchor in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target
