"""The hands that do to the site what is planned. Whom it hits depends on who is there then."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
from redis.exceptions import RedisError
from rq import Queue

from .crew import QUEUES, Crew, Member
from .diary import note
from .plan import Fault
from .servers import PostgreSQL, RedisServer

BELL = "django_stephooks.runtimes.rq.job"
SWEEP = "django_stephooks.runtimes.rq.sweep_job"


class Faults:
    """Carries out a plan. `tick` is called often, from the main thread, which may start processes."""

    def __init__(self, planned: list[Fault], *, crew: Crew, postgres: PostgreSQL, redis: RedisServer) -> None:
        self.crew, self.postgres, self.redis = crew, postgres, redis
        self.waiting = list(planned)
        self.began = time.monotonic()
        self.done: Counter[str] = Counter()
        # What ends by itself: when, and how.
        self.lasting: list[tuple[float, Fault, Callable[[], None]]] = []
        self.down: set[str] = set()

    def tick(self) -> None:
        now = time.monotonic()
        self._end([lasting for lasting in self.lasting if lasting[0] <= now])
        while self.waiting and self.waiting[0].at <= now - self.began:
            self._inflict(self.waiting.pop(0))

    def stop(self) -> None:
        """No more faults, and the end of those that last."""
        self.waiting.clear()
        self._end(list(self.lasting))

    def _end(self, over: list[tuple[float, Fault, Callable[[], None]]]) -> None:
        for lasting in over:
            self.lasting.remove(lasting)
            lasting[2]()
            note("fault over", fault=lasting[1].kind)

    def _inflict(self, fault: Fault) -> None:
        name = "_" + fault.kind.replace(" ", "_")
        since = time.time()
        try:
            facts = getattr(self, name)(fault)
        except (RedisError, psycopg.OperationalError):
            facts = None  # what it would hit is down already
        if facts is None:
            note("fault missed", fault=fault.kind)
            return
        self.done[fault.kind] += 1
        note("fault", fault=fault.kind, since=since, seconds=fault.seconds, **facts)

    def _last(self, fault: Fault, end: Callable[[], None], seconds: float | None = None) -> None:
        self.lasting.append((time.monotonic() + (seconds or fault.seconds), fault, end))

    # --- processes ---

    def _pick(self, fault: Fault, *kinds: str) -> Member | None:
        there = [member for member in self.crew.of(*kinds) if member.name not in self.down]
        return there[int(fault.chance * len(there))] if there else None

    def _kill(self, member: Member, pids: list[int]) -> dict[str, Any]:
        return {"victim": member.name, "pids": self.crew.signal(pids, signal.SIGKILL)}

    def _worker_killed(self, fault: Fault) -> dict[str, Any] | None:
        member = self._pick(fault, "forking", "simple", "tuned")
        return member and self._kill(member, member.family())

    def _worker_parent_killed(self, fault: Fault) -> dict[str, Any] | None:
        """Its horse goes on as an orphan."""
        member = self._pick(fault, "forking", "tuned")
        return member and self._kill(member, member.family()[:1])

    def _horse_killed(self, fault: Fault) -> dict[str, Any] | None:
        with_horses = [member for member in self.crew.of("forking", "tuned") if member.horses()]
        if not with_horses:
            return None
        member = with_horses[int(fault.chance * len(with_horses))]
        return self._kill(member, member.horses())

    def _worker_stopped(self, fault: Fault) -> dict[str, Any] | None:
        member = self._pick(fault, "forking", "simple", "tuned")
        return member and self._freeze(fault, member, member.family())

    def _horse_stopped(self, fault: Fault) -> dict[str, Any] | None:
        with_horses = [member for member in self.crew.of("forking", "tuned") if member.horses()]
        if not with_horses:
            return None
        member = with_horses[int(fault.chance * len(with_horses))]
        return self._freeze(fault, member, member.horses())

    def _scheduler_stopped(self, fault: Fault) -> dict[str, Any] | None:
        member = self._pick(fault, "scheduler")
        return member and self._freeze(fault, member, member.family())

    def _freeze(self, fault: Fault, member: Member, pids: list[int]) -> dict[str, Any]:
        reached = self.crew.signal(pids, signal.SIGSTOP)
        self.down.add(member.name)

        def thaw() -> None:
            note("woken", pids=self.crew.signal(reached, signal.SIGCONT))
            self.down.discard(member.name)

        self._last(fault, thaw)
        return {"victim": member.name, "pids": reached}

    def _worker_terminated(self, fault: Fault) -> dict[str, Any] | None:
        member = self._pick(fault, "forking", "simple", "tuned")
        return member and {
            "victim": member.name,
            "pids": self.crew.signal(member.family()[:1], signal.SIGTERM),
        }

    def _scheduler_killed(self, fault: Fault) -> dict[str, Any] | None:
        member = self._pick(fault, "scheduler")
        return member and self._kill(member, member.family())

    def _web_killed(self, fault: Fault) -> dict[str, Any] | None:
        member = self._pick(fault, "web")
        return member and self._kill(member, member.family())

    # --- servers ---

    def _redis_restarted(self, fault: Fault) -> dict[str, Any] | None:
        if "redis" in self.down:
            return None
        self.down.add("redis")
        self.redis.kill()

        def start() -> None:
            self.redis.start()
            self.down.discard("redis")

        self._last(fault, start)
        return {}

    def _redis_flushed(self, fault: Fault) -> dict[str, Any] | None:
        self.redis.client.flushall()
        return {}

    def _redis_paused(self, fault: Fault) -> dict[str, Any] | None:
        if "redis" in self.down:
            return None
        self.redis.pause(fault.seconds)
        self._last(fault, lambda: None)
        return {}

    def _redis_stopped(self, fault: Fault) -> dict[str, Any] | None:
        if "redis" in self.down:
            return None
        self.down.add("redis")
        self.redis.signal(signal.SIGSTOP)

        def thaw() -> None:
            self.redis.signal(signal.SIGCONT)
            self.down.discard("redis")

        self._last(fault, thaw)
        return {}

    def _postgres_restarted(self, fault: Fault) -> dict[str, Any] | None:
        if "postgres" in self.down:
            return None
        self.down.add("postgres")
        self.postgres.stop()

        def start() -> None:
            self.postgres.start()
            self.down.discard("postgres")

        self._last(fault, start)
        return {}

    def _backends_terminated(self, fault: Fault) -> dict[str, Any] | None:
        if "postgres" in self.down:
            return None
        return {"ended": self.postgres.terminate_backends(0.2 + 0.8 * fault.chance)}

    # --- bells ---

    def _queues(self) -> Iterator[Queue]:
        for name in QUEUES:
            yield Queue(name, connection=self.redis.client)

    def _bells_doubled(self, fault: Fault) -> dict[str, Any] | None:
        """Bells that nobody rang: what a retried push or a very late one looks like."""
        for queue in self._queues():
            for _ in range(4):
                queue.enqueue_call(BELL, args=(queue.name,), timeout=-1, result_ttl=0, failure_ttl=60)
        return {}

    def _bell_lost(self, fault: Fault) -> dict[str, Any] | None:
        """A crash between noting that a bell was rung and pushing its job."""
        for queue in self._queues():
            self.redis.client.set(f"stephooks:bell:{queue.name}", f"lost-{os.getpid()}")
            self.redis.client.delete(queue.key)
        return {}

    def _sweeps_doubled(self, fault: Fault) -> dict[str, Any] | None:
        queue = Queue("default", connection=self.redis.client)
        for _ in range(3):
            queue.enqueue_call(SWEEP, timeout=60, result_ttl=0, failure_ttl=60)
        return {}
