"""A run's stream in Redis: one key, of bounded length, that goes away by itself."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

from django.core.exceptions import ImproperlyConfigured
from redis import Redis
from redis.exceptions import RedisError
from rq.utils import as_text

from django_stephooks.conf import app_settings
from django_stephooks.durations import parse_duration
from django_stephooks.models import Run

from . import rq
from .streams import READ_COUNT, Entry, Stream, StreamDown, StreamLost

logger = logging.getLogger("django_stephooks")

T = TypeVar("T")

# Counted from the last entry, for runs that wait long, or whose end Redis was not told.
IDLE_MILLISECONDS = 7 * 24 * 3600 * 1000

# Each entry has the fields t, the turn that added it, and k and d, its kind and its data. They are
# in this order, so the turn is the second item.
_LAST = """
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if last and tonumber(last[2][2]) > tonumber(ARGV[1]) then return false end
"""

# ARGV: turn, idle time, the first mark if there is nothing. The turn's own entry keeps earlier turns out.
BEGIN = f"""{_LAST}
local id = ARGV[3] .. '-1'
if last then
    local mark, number = string.match(last[1], '(%d+)-(%d+)')
    id = mark .. '-' .. string.format('%d', number + 1)
end
redis.call('XADD', KEYS[1], id, 't', ARGV[1], 'k', 'turn', 'd', '')
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('XRANGE', KEYS[1], '-', '+')
"""

# ARGV: turn, idle time, length, then cursor, kind and data of each. What was sent twice, because the
# connection broke when it had arrived, is there already: its cursor is refused.
ADD = f"""{_LAST}
for i = 4, #ARGV, 3 do
    local added = redis.pcall('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], ARGV[i],
                              't', ARGV[1], 'k', ARGV[i + 1], 'd', ARGV[i + 2])
    if type(added) == 'table' and added.err and not string.find(added.err, 'equal or smaller') then
        return added
    end
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
"""

# ARGV: how long it is kept at most.
END = """
if redis.call('PTTL', KEYS[1]) > tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return 1
"""


class RedisStream(Stream):
    """In the Redis of the run's queue."""

    def __init__(self, run: Run) -> None:
        self.queue = run.queue
        # The public id: keys of Redis are seen by more people than rows are.
        self.key = f"stephooks:stream:{run.public_id}"

    def first_mark(self) -> str:
        # Later streams of the run sort behind earlier ones.
        return str(time.time_ns() // 1_000_000)

    def begin(self, turn: int) -> list[Entry]:
        found = self._run(BEGIN, turn, IDLE_MILLISECONDS, self.first_mark())
        if found is None:
            raise StreamLost
        return [_entry(cursor, fields[3], fields[5]) for cursor, fields in found]

    def add(self, turn: int, entries: Sequence[Entry]) -> None:
        fields = [item for entry in entries for item in entry]
        if self._run(ADD, turn, IDLE_MILLISECONDS, int(app_settings.STREAM_LENGTH), *fields) is None:
            raise StreamLost

    def read(self, after: str, *, wait: float = 0) -> list[Entry]:
        found = self._ask(lambda redis: self._range(redis, after))
        if not found and wait:
            # Only to be woken: what it returns differs between the versions of Redis' protocol.
            block = max(1, int(wait * 1000))
            woken = self._ask(lambda redis: redis.xread({self.key: after or "0-0"}, count=1, block=block))
            found = self._ask(lambda redis: self._range(redis, after)) if woken else []
        return found

    def _range(self, redis: Redis, after: str) -> list[Entry]:
        rows: Any = redis.xrange(self.key, f"({after}" if after else "-", "+", count=READ_COUNT)
        named = [(cursor, {as_text(name): value for name, value in row.items()}) for cursor, row in rows]
        return [_entry(cursor, row["k"], row["d"]) for cursor, row in named]

    def end(self) -> None:
        keep = parse_duration(app_settings.STREAM_KEEP, name="STREAM_KEEP")
        self._run(END, int(keep.total_seconds() * 1000))

    def _run(self, script: str, *arguments: Any) -> Any:
        return self._ask(lambda redis: _script(script)(keys=[self.key], args=arguments, client=redis))

    def _ask(self, action: Callable[[Redis], T]) -> T:
        """StreamDown if Redis does not answer, or did not a moment ago: nobody waits for it twice."""
        try:
            with rq.unless_quiet(f"{self.queue} (streams)") as quiet:
                if quiet:
                    raise StreamDown
                return action(rq.open_queue(self.queue).connection)
        except RedisError as error:
            # Only the kind of error: its text may hold an address or a password.
            logger.warning("Redis can not be asked for streams of chunks (%s).", type(error).__name__)
            raise StreamDown from None
        except ImproperlyConfigured as error:
            raise StreamDown from error


def _entry(cursor: Any, kind: Any, text: Any) -> Entry:
    return Entry(str(as_text(cursor)), str(as_text(kind)), str(as_text(text)))


@cache
def _script(text: str) -> Any:
    # It is told at each call which client to use.
    return Redis().register_script(text)
