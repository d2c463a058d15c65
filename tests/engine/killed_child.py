"""A process that plays a scenario until it kills itself with SIGKILL at its n-th point.

    python -m tests.engine.killed_child "a lone step" 7 acts.txt

What its code did is written to the file, where it outlives the process.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any


def main(name: str, kill_at: str, path: str) -> None:
    import django

    django.setup()
    from django.test import override_settings
    from django.utils import timezone

    from tests.clock import Clock

    from . import test_kill_at_each_boundary as killing
    from .conftest import NobodyComes

    class Written(list[Any]):
        def append(self, what: Any) -> None:
            super().append(what)
            with Path(path).open("a") as file:
                file.write(f"{what}\n")

    timezone.now = clock = Clock()
    killing.did = Written()
    killing.process.kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
    runtime = f"{NobodyComes.__module__}.{NobodyComes.__name__}"
    with override_settings(STEPHOOKS={"RUNTIME": runtime}):
        killing.play(killing.SCENARIOS[name], clock, int(kill_at))


if __name__ == "__main__":
    main(*sys.argv[1:])
