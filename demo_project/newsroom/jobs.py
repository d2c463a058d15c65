"""An ordinary RQ job, to show that a worker is free while a story waits."""

from __future__ import annotations

import os


def wind_the_clock() -> int:
    """Do next to nothing; return the process id of the worker that forked us to do it."""
    return os.getppid()
