"""What was measured, as rows; written as JSON and as a table for people."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path

from .database import query
from .processes import redis

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "explanation" / "performance.md"
BEGIN, END = "<!-- results: written by make bench -->\n", "<!-- end of results -->\n"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure: the median of `values`. `floor`: the same of what is underneath, measured beside it.

    `others`: how many other runs waited; None if that does not matter.
    """

    measure: str
    values: Sequence[float]
    unit: str
    others: int | None = None
    floor: float | None = None
    goal: float | None = None

    @property
    def value(self) -> float:
        return statistics.median(self.values)

    @property
    def more_is_better(self) -> bool:
        return self.unit.endswith("/s")

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        return self.value >= self.goal if self.more_is_better else self.value <= self.goal

    @property
    def name(self) -> str:
        return self.measure if self.others is None else f"{self.measure}, {self.others:,} others waiting"

    def __str__(self) -> str:
        spread = f"  ({short(min(self.values))} to {short(max(self.values))})" if len(self.values) > 1 else ""
        goal = "" if self.goal is None else f"  goal {short(self.goal)} {'met' if self.met else 'MISSED'}"
        return f"{self.name:<85} {short(self.value):>8} {self.unit}{spread}{goal}"

    def as_json(self) -> dict[str, object]:
        floor = None if self.floor is None else round(self.floor, 3)
        return {
            "name": self.name,
            "value": round(self.value, 3),
            "unit": self.unit,
            "floor": floor,
            "goal": self.goal,
            "met": self.met,
        }


def short(value: float) -> str:
    """Three figures that say something: 0.312, 4.56, 78.9, 1,234."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def machine() -> str:
    """On what it was measured, in one sentence."""
    names = ("server_version", "fsync", "synchronous_commit", "autovacuum")
    shown = {name: query(f"SHOW {name}")[0][0].split()[0] for name in names}
    packages = ", ".join(f"{name} {version(name)}" for name in ("Django", "rq", "psycopg"))
    postgres = shown.pop("server_version")
    durability = ", ".join(f"{name} {value}" for name, value in shown.items())
    return (
        f"{date.today():%Y-%m-%d}, {os.cpu_count()} cores ({platform.machine()}), "  # noqa: DTZ011
        f"load {os.getloadavg()[0]:.1f} before it began, Python {platform.python_version()}, {packages}, "
        f"PostgreSQL {postgres} ({durability}), Redis {redis().info()['redis_version']}."
    )


def table(rows: Sequence[Row], about: str) -> str:
    """Markdown: a line for each measure, a column for each number of others waiting."""
    crowds = sorted({row.others for row in rows if row.others is not None}) or [0]
    heads = ["", "unit", *(f"{crowd:,} others" for crowd in crowds), "floor", "goal"]
    lines = [f"| {' | '.join(heads)} |", f"|---|---|{'--:|' * (len(heads) - 2)}"]
    for measure in dict.fromkeys(row.measure for row in rows):
        found = {row.others: row for row in rows if row.measure == measure}
        first = next(iter(found.values()))
        # What others can not matter to stands in the first column.
        cells = [
            _cell(found.get(crowd) or (found.get(None) if crowd == crowds[0] else None)) for crowd in crowds
        ]
        floor, goal = ("" if value is None else short(value) for value in (first.floor, first.goal))
        lines.append(f"| {measure} | {first.unit} | {' | '.join(cells)} | {floor} | {goal} |")
    return f"{about}\n\n" + "\n".join(lines) + "\n"


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    return short(row.value) if row.met is None else f"{short(row.value)} {'✓' if row.met else '✗'}"


def write(rows: Sequence[Row], directory: Path, *, about: str) -> None:
    """results.json and results.md; and the table in the documentation, if it is the real thing."""
    directory.mkdir(parents=True, exist_ok=True)
    figures = json.dumps([row.as_json() for row in rows], indent=1, ensure_ascii=False)
    (directory / "results.json").write_text(figures + "\n")
    text = table(rows, about)
    (directory / "results.md").write_text(f"# Results\n\n{text}")
    if directory == HERE:
        head, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}{text}{END}{rest.partition(END)[2]}")
