"""A run's stream: what its steps emit while they work, for whoever watches.

It is for the live view only. Results, checkpoints and the journal do not depend on it: a stream may
lose its entries, or be out of reach, and no run is wrong.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from django.db import DatabaseError

from django_stephooks.conf import app_settings
from django_stephooks.models import Chunk, Run
from django_stephooks.models.transactions import transact, write_alias

# What one `read` returns at most.
READ_COUNT = 500
# Where there is nothing to wait on, it is looked again after so many seconds.
LOOK_AGAIN_SECONDS = 0.1
# Every so many entries the oldest are removed.
TRIM_EVERY = 100


class StreamDown(Exception):
    """The stream is out of reach now."""


class StreamLost(Exception):
    """A later turn adds to this stream, or the run is over."""


class Entry(NamedTuple):
    """A `cursor` says where it is: a mark of this stream, "-", and its number in it.

    When a stream was lost and begins anew, the mark is another one. `text` is JSON in ASCII.
    """

    cursor: str
    kind: str
    text: str

    @property
    def mark(self) -> str:
        return self.cursor.partition("-")[0]


class Stream:
    """The entries of one run, in order: at least the last STREAM_LENGTH of them."""

    def begin(self, turn: int) -> list[Entry]:
        """Let only this turn, and later ones, add from now on; returns what is there.

        Only a run's first turn may add without it. StreamDown, StreamLost.
        """
        raise NotImplementedError

    def first_mark(self) -> str:
        """The mark of a stream that has no entry yet."""
        raise NotImplementedError

    def add(self, turn: int, entries: Sequence[Entry]) -> None:
        """Add those that are not there yet, by their cursors. StreamDown, StreamLost."""
        raise NotImplementedError

    def read(self, after: str, *, wait: float = 0) -> list[Entry]:
        """The next entries behind this cursor ("" for the beginning); waits so many seconds for the first.

        All there are if it is a cursor of an earlier stream. StreamDown.
        """
        raise NotImplementedError

    def end(self) -> None:
        """The run is over: what is there need only be kept for STREAM_KEEP. StreamDown."""


class DatabaseStream(Stream):
    """In the table of chunks, for runtimes without Redis. Rows are removed together with their run."""

    mark = "0"

    def __init__(self, run: Run) -> None:
        self.run = run

    def first_mark(self) -> str:
        return self.mark

    def begin(self, turn: int) -> list[Entry]:
        # Each write looks for itself whether the turn still holds the run.
        try:
            return self._rows(0, None)
        except DatabaseError as error:
            raise StreamDown from error

    def add(self, turn: int, entries: Sequence[Entry]) -> None:
        try:
            self._add(turn, entries)
        except DatabaseError as error:
            raise StreamDown from error

    @transact
    def _add(self, turn: int, entries: Sequence[Entry]) -> None:
        alias = write_alias()
        run = Run.objects.using(alias).filter(pk=self.run.pk).held(turn)
        if not run.select_for_update().values_list("pk", flat=True).first():
            raise StreamLost
        chunks = Chunk.objects.using(alias)
        numbers = [_number(entry.cursor) for entry in entries]
        chunks.bulk_create(
            Chunk(run=self.run, number=number, kind=entry.kind, data=entry.text)
            for number, entry in zip(numbers, entries, strict=True)
        )
        if numbers[-1] // TRIM_EVERY > (numbers[0] - 1) // TRIM_EVERY:
            too_old = numbers[-1] - int(app_settings.STREAM_LENGTH)
            chunks.filter(run=self.run, number__lte=too_old).delete()

    def read(self, after: str, *, wait: float = 0) -> list[Entry]:
        mark, _, number = after.partition("-")
        known = int(number) if mark == self.mark else 0
        until = time.monotonic() + wait
        try:
            while not (rows := self._rows(known, READ_COUNT)) and time.monotonic() < until:
                time.sleep(LOOK_AGAIN_SECONDS)
        except DatabaseError as error:
            raise StreamDown from error
        return rows

    def _rows(self, after: int, count: int | None) -> list[Entry]:
        chunks = Chunk.objects.using(write_alias()).filter(run=self.run, number__gt=after)
        rows = chunks.order_by("number").values_list("number", "kind", "data")[:count]
        return [Entry(f"{self.mark}-{number}", kind, text) for number, kind, text in rows]


def _number(cursor: str) -> int:
    return int(cursor.rpartition("-")[2])
