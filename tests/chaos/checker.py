"""The independent checker: compares the database with the diary, and says what is wrong.

It knows the tables and the meaning of their columns, and nothing of the code that fills them.
`python -m tests.chaos.checker DIRECTORY` checks a kept directory again.
"""

from __future__ import annotations

import sys
from pathlib import Path

from . import rules_of_answers, rules_of_runs, rules_of_steps, rules_of_time, summary
from .evidence import RULES, Evidence

# Imported for the rules that they add.
ROOMS = (rules_of_runs, rules_of_steps, rules_of_answers, rules_of_time)


def check(evidence: Evidence) -> dict[str, list[str]]:
    """What each rule complains about; empty if all is well."""
    found = {rule.__name__: list(rule(evidence)) for rule in RULES}
    return {name: complaints for name, complaints in found.items() if complaints}


def check_directory(directory: Path) -> bool:
    """Check what a run has left, and show it; whether all is well."""
    evidence = summary.gather(directory)
    complaints = check(evidence)
    summary.show(evidence, complaints)
    return not complaints


if __name__ == "__main__":
    sys.exit(0 if check_directory(Path(sys.argv[1])) else 1)
