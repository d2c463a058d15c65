"""What a turn emits, on its way to the run's stream: nobody is sent twice what they got already.

An unkeyed chunk is named by its step call and its number there, a keyed one by its step call and its
key. In a later turn the first chunk brings along what the stream has already; from then on a chunk that
is there is passed by. Where a replayed step comes to something else than before, the stream is told
to go back to that number first.

Nothing here can fail a turn. While the stream is out of reach, chunks wait for it here.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from django_stephooks.models import Run
from django_stephooks.runtimes.base import get_runtime
from django_stephooks.runtimes.streams import Entry, Stream, StreamDown, StreamLost

logger = logging.getLogger("django_stephooks.engine")

# So many wait while the stream is out of reach; then the oldest are dropped.
MOST_WAITING = 1000
OVER = ("completed", "failed")


class Emitted(NamedTuple):
    """A chunk, as JSON text; or, without a text, that its call has ended having emitted `number`."""

    call: str
    number: int = 0
    key: str | None = None
    text: str | None = None

    @property
    def data(self) -> str:
        name = f'"n":{self.number}' if self.key is None else f'"key":{json.dumps(self.key)}'
        return f'{{"call":{json.dumps(self.call)},{name},"chunk":{self.text}}}'


class Sent:
    """What a stream has: what is emitted again is found in it."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.keys: set[tuple[str, str]] = set()
        # By call: up to which number, and the data of what earlier turns emitted.
        self.ends: dict[str, int] = {}
        self.data: dict[str, dict[int, str]] = {}
        for entry in entries:
            if entry.kind == "chunk":
                self._note(entry.text)
            elif entry.kind == "rewind":
                told = json.loads(entry.text)
                self._go_back(told["call"], told["n"])

    def _note(self, text: str) -> None:
        told = json.loads(text)
        call = told["call"]
        if "key" in told:
            self.keys.add((call, told["key"]))
        else:
            self.data.setdefault(call, {})[told["n"]] = text
            self.ends[call] = told["n"] + 1

    def _go_back(self, call: str, number: int) -> None:
        earlier = self.data.get(call, {})
        for later in range(number, self.ends.get(call, 0)):
            earlier.pop(later, None)
        self.ends[call] = number

    def come_to(self, emitted: Emitted) -> Iterator[tuple[str, str]]:
        """The kinds and data of the entries that this adds, if any."""
        call, number, data = emitted.call, emitted.number, emitted.data
        if emitted.key is not None:
            if (call, emitted.key) not in self.keys:
                self.keys.add((call, emitted.key))
                yield "chunk", data
            return
        if number < self.ends.get(call, 0):
            # One that is not there any more was too old: it is taken for the same.
            if emitted.text is not None and self.data.get(call, {}).get(number, data) == data:
                return
            self._go_back(call, number)
            yield "rewind", f'{{"call":{json.dumps(call)},"n":{number}}}'
        if emitted.text is not None:
            self.ends[call] = number + 1
            yield "chunk", data


class Chunks:
    """Those of one turn."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.lock = threading.Lock()
        self.stream: Stream | None = None
        self.sent: Sent | None = None
        self.last = ("", 0)
        self.calls: set[str] = set()
        # Until it is known what the stream has, and until it could be added to.
        self.emitted: deque[Emitted] = deque(maxlen=MOST_WAITING)
        self.entries: deque[Entry] = deque(maxlen=MOST_WAITING)
        self.is_lost = False

    def emit(self, emitted: Emitted) -> None:
        with self.lock:
            if not self.is_lost:
                self.calls.add(emitted.call)
                self.emitted.append(emitted)
                self._flush()

    def end_call(self, call: str, number: int) -> None:
        """The call has completed: what an earlier attempt had emitted beyond this number is taken back."""
        if number and call in self.calls and self.run.turn > 1:
            self.emit(Emitted(call, number))

    def close(self, outcome: str) -> None:
        """The turn has ended like this."""
        if self.calls and not self.is_lost:
            with self.lock:
                self._flush(over=outcome in OVER)

    def _flush(self, *, over: bool = False) -> None:
        try:
            self._send()
            if over and self.stream is not None:
                self.stream.end()
        except StreamDown:
            pass  # what waits is sent with the next chunk
        except StreamLost:
            self.is_lost = True
        except Exception:
            # Whatever somebody else's stream raises, the run has nothing to do with it.
            logger.exception("Chunks of run %s could not be sent.", self.run.pk)
            self.is_lost = True

    def _send(self) -> None:
        if self.stream is None:
            self.stream = get_runtime().stream(self.run)
        if self.sent is None:
            there = self.stream.begin(self.run.turn) if self.run.turn > 1 else []
            self.sent = Sent(there)
            mark, _, number = there[-1].cursor.partition("-") if there else (self.stream.first_mark(), "", 0)
            self.last = mark, int(number)
        mark, number = self.last
        while self.emitted:
            for kind, data in self.sent.come_to(self.emitted.popleft()):
                number += 1
                self.entries.append(Entry(f"{mark}-{number}", kind, data))
        self.last = mark, number
        if self.entries:
            # With the cursors that they got once, so that none is added twice.
            self.stream.add(self.run.turn, list(self.entries))
            self.entries.clear()
