"""Watching a run: what it emits, when it waits for people and goes on, and its end.

A `Watch` is one watcher's place in the run's stream. The faces ask it again and again what is new.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from datetime import timedelta
from typing import Any, NamedTuple

from django.utils import timezone

from django_stephooks.conf import app_settings
from django_stephooks.durations import parse_duration
from django_stephooks.exceptions import InvalidTokenError
from django_stephooks.models import Hook, Run
from django_stephooks.models.transactions import write_alias
from django_stephooks.runtimes.base import get_runtime
from django_stephooks.runtimes.streams import Entry, StreamDown
from django_stephooks.streaming import STREAM
from django_stephooks.tokens import check_token, clean, token_id

# The row is asked for once in so many seconds: what is emitted does not come from there.
LOOK_AT_RUN_SECONDS = 1.0
# Behind the cursor of the end message; a watcher who has it need not come again.
END = ".end"
# No mark and no number of a stream is longer.
CURSOR = re.compile(r"^[0-9]{1,19}-[0-9]{1,19}(\.end)?$", re.ASCII)


class Message(NamedTuple):
    """One for the watcher. Those with a `cursor` can be gone on from; `data` is JSON."""

    event: str
    data: str = "{}"
    cursor: str = ""


def run_of_token(token: Any) -> Run:
    """The run that this token lets anybody watch; InvalidTokenError."""
    token = clean(token)
    run = Run.objects.using(write_alias()).filter(public_id=token_id(token)).first()
    if run is None:
        raise InvalidTokenError("There is no run that this lets you watch (any more).")
    check_token(token, run.public_id, version=1, purpose=STREAM)
    return run


class Watch:
    """From a cursor on; from the beginning of what is still there with "", or what is none."""

    def __init__(self, run: Run, after: str = "") -> None:
        known = CURSOR.fullmatch(after)
        self.run = run
        self.stream = get_runtime().stream(run)
        self.cursor = after.removesuffix(END) if known else ""
        self.saw_end = bool(known and known[1])
        # What the watcher was told last: the questions that the run waits for, None for nothing yet.
        self.waits_for: list[str] | None = None
        self.state: tuple[Any, ...] = ()
        self.over = False
        self._look_at = 0.0

    @property
    def is_needless(self) -> bool:
        """Whether the watcher was told of the end, and it is the end still."""
        self._look_at_run(time.monotonic())
        return self.saw_end and self.run.is_finished

    def look(self, wait: float = 0) -> list[Message]:
        """What is new, waiting so many seconds for the next chunk; `over` is set behind the last one."""
        now = time.monotonic()
        # Before the stream: whatever was emitted before the run came to this, is in the stream by now.
        if now >= self._look_at:
            self._look_at_run(now)
        while entries := self._read(0 if self.run.is_finished else wait):
            if messages := [message for entry in entries for message in self._told_by(entry)]:
                return messages  # there may be more
            wait = 0
        return self._told_by_run()

    def _look_at_run(self, now: float) -> None:
        columns = ("status", "turn", "finished_at")
        row = Run.objects.using(write_alias()).filter(pk=self.run.pk).only(*columns).first()
        if row is None:
            self.run.status, self.run.finished_at = Run.Status.CANCELLED, None
        else:
            self.run.status, self.run.turn, self.run.finished_at = row.status, row.turn, row.finished_at
        self._look_at = now + LOOK_AT_RUN_SECONDS

    def _read(self, wait: float) -> list[Entry]:
        if self._is_forgotten():
            return []
        began = time.monotonic()
        try:
            return self.stream.read(self.cursor, wait=wait)
        except StreamDown:
            # It says so at once.
            time.sleep(max(0.0, wait - (time.monotonic() - began)))
            return []

    def _is_forgotten(self) -> bool:
        keep: timedelta = parse_duration(app_settings.STREAM_KEEP, name="STREAM_KEEP")
        finished_at = self.run.finished_at
        return self.run.is_finished and (finished_at is None or finished_at + keep < timezone.now())

    def _told_by(self, entry: Entry) -> list[Message]:
        mark = self.cursor.partition("-")[0]
        self.cursor = entry.cursor
        begins_anew = [Message("restart")] if mark not in ("", entry.mark) else []
        if entry.kind == "turn":
            return begins_anew
        return [*begins_anew, Message(entry.kind, entry.text, entry.cursor)]

    def _told_by_run(self) -> list[Message]:
        if self.run.is_finished:
            self.over = True
            status = json.dumps({"status": str(self.run.status)})
            self._shorten_life()
            return [Message("end", status, f"{self.cursor or '0-0'}{END}")]
        state = (self.run.status, self.run.turn)
        if state == self.state:
            return []
        self.state = state
        before, self.waits_for = self.waits_for, self._asked()
        if self.waits_for == before:
            return []
        if self.waits_for:
            return [Message("waiting", json.dumps({"hooks": self.waits_for}))]
        # To somebody who comes again it is news that it does not wait (any more).
        return [Message("resumed")] if self.run.turn > 1 else []

    def _shorten_life(self) -> None:
        # Whoever ended the run may not have told its stream.
        with contextlib.suppress(StreamDown):
            self.stream.end()

    def _asked(self) -> list[str]:
        if self.run.status != Run.Status.SUSPENDED:
            return []
        hooks = Hook.objects.using(write_alias()).filter(run=self.run).pending()
        return list(hooks.order_by("pk").values_list("name", flat=True))
