"""The page about security names, for each threat, tests that there are."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/security.md").read_text()
TEST = re.compile(r"`(\w+/test_\w+\.py)::(test_\w+)`")


def rows() -> dict[str, str]:
    """Each threat and what is said of its tests."""
    _, _, table = PAGE.partition("| threat |")
    cells = [line.split(" | ") for line in table.splitlines() if line.startswith("| ") and " | " in line]
    return {threat.removeprefix("| "): tests for threat, _defense, tests in cells}


@pytest.mark.parametrize("threat", rows())
def test_each_threat_has_tests_that_exist(threat: str) -> None:
    said = rows()[threat]
    named = TEST.findall(said)
    assert len(named) == said.count("::") > 0
    for file, name in named:
        tree = ast.parse((ROOT / "tests" / file).read_text())
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, file


def test_the_threats_are_those_that_were_thought_of() -> None:
    threats = " ".join(rows()).lower()
    for word in ("forged", "replayed", "leaks", "scanner", "idor", "door", "xss", "size", "rate", "redis"):
        assert word in threats
    for word in ("secret_key", "becomes an object", "csrf"):
        assert word in threats
