"""One way to write: a transaction on the write database that a lost deadlock does not fail."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from django.db import OperationalError, connections, router, transaction

P = ParamSpec("P")
R = TypeVar("R")

ATTEMPTS = 8
# PostgreSQL: serialization failure, deadlock, lock not available. MySQL and MariaDB: lock wait
# timeout, deadlock, record changed since last read (MariaDB's snapshot isolation).
SQLSTATES = {"40001", "40P01", "55P03"}
MYSQL_ERRORS = {1205, 1213, 1020}


def write_alias() -> str:
    """The alias of the database that runs live in; the engine never reads a replica."""
    from .run import Run

    return router.db_for_write(Run)


def is_transient(error: OperationalError) -> bool:
    """Whether the database asks to try the same transaction again."""
    cause = error.__cause__
    if getattr(cause, "sqlstate", None) in SQLSTATES:
        return True
    return bool(error.args) and (error.args[0] in MYSQL_ERRORS or "database is locked" in str(error.args[0]))


def retried(function: Callable[P, R]) -> Callable[P, R]:
    """Call the function again if it lost a deadlock and the transaction is its own.

    Inside a transaction of the caller the error goes to the caller: the whole of it is lost.
    """

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        attempt = 1
        while True:
            try:
                return function(*args, **kwargs)
            except OperationalError as error:
                ours = not connections[write_alias()].in_atomic_block
                if not ours or attempt >= ATTEMPTS or not is_transient(error):
                    raise
            # Jitter, or the same transactions meet again.
            time.sleep(random.uniform(0, 0.01 * 2**attempt))  # noqa: S311
            attempt += 1

    return wrapped


def transact(function: Callable[P, R]) -> Callable[P, R]:
    """Run the function in one transaction; again if it lost a deadlock and the transaction is our own."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with transaction.atomic(using=write_alias()):
            return function(*args, **kwargs)

    return retried(wrapped)
