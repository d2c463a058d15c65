"""Run a ``manage.py`` command that ends when the demo's launcher does, however that ends.

``python -m demo_project.tethered rqworker default``, started by ``children``. A launcher that is
killed with ``kill -9`` can stop nobody, so the kernel does it: on Linux a process can ask for a
signal at its parent's death. On other systems this is just ``manage.py``.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; at once, if it has ended."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def tether(launcher: int) -> None:
    """Tie this process to the launcher, and whatever it forks (RQ's work horses) to itself."""
    die_with(launcher)
    # The kernel does not hand the wish down to forks.
    forker = launcher

    def remember() -> None:
        nonlocal forker
        forker = os.getpid()

    os.register_at_fork(before=remember, after_in_child=lambda: die_with(forker))


def main() -> None:
    tether(int(os.environ["DEMO_LAUNCHER_PID"]))
    # Not setdefault: whoever works on another project may have another one's name exported.
    os.environ["DJANGO_SETTINGS_MODULE"] = "demo_project.settings"
    from django.core.management import execute_from_command_line

    execute_from_command_line(["manage.py", *sys.argv[1:]])


if __name__ == "__main__":
    main()
