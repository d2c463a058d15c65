"""Kills the "process" at its n-th commit point, and lets nothing that it does afterwards count.

A commit point is the moment right before or right after a commit (or a statement that writes and is
a transaction of its own), or a line of a workflow's code that calls `point`. Code that a real SIGKILL
would never have run (the engine's own clean-up, a workflow's `finally`) does run here, so from the
kill on its every statement is refused, and what it does in memory is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection

BEFORE, AFTER = "before", "after"
WRITES = re.compile(r"\s*(INSERT|UPDATE|DELETE|REPLACE|WITH)\b", re.I)


class Killed(BaseException):
    """SIGKILL."""


class Process:
    """`with process.living():` database work is counted, and killed at the n-th point.

    `points` counts on over several `living` blocks, as if they were processes one after the other;
    only the one in which point n lies is killed.
    """

    def __init__(self, kill: Callable[[], None] | None = None) -> None:
        self.kill = kill or self._raise
        self.begin(None)

    def begin(self, kill_at: int | None) -> None:
        """Count anew; None kills nobody."""
        self.kill_at = kill_at
        self.points: list[str] = []
        self.dead = False

    def point(self, where: str) -> None:
        if self.dead:
            raise Killed
        self.points.append(where)
        if len(self.points) == self.kill_at:
            self.kill()

    def _raise(self) -> None:
        self.dead = True
        raise Killed

    @contextmanager
    def living(self) -> Iterator[None]:
        """Killed is not raised out of it: it ends, with a database connection as a new process has."""
        connection.ensure_connection()
        commit = connection._commit

        def counted_commit() -> None:
            try:
                self.point(f"{BEFORE} commit")
                commit()
                self.point(f"{AFTER} commit")
            except Killed:
                connection._rollback()  # what the database does with a connection that is gone
                connection.run_on_commit = []
                raise

        connection._commit = counted_commit
        try:
            with connection.execute_wrapper(self._execute):
                yield
        except Killed:
            if not self.dead:
                raise
        finally:
            del connection._commit
            if self.dead:
                self.dead = False
                connection.close()

    def _execute(self, execute: Callable[..., Any], sql: str, *args: Any) -> Any:
        if self.dead:
            raise Killed
        if connection.in_atomic_block or not WRITES.match(sql):
            return execute(sql, *args)
        self.point(f"{BEFORE} commit")
        result = execute(sql, *args)
        self.point(f"{AFTER} commit")
        return result
