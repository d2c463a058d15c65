"""An idempotency key means one run, however many start it at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from django_stephooks.engine.worker import work
from django_stephooks.models import Event, Run

from . import workflows
from .crew import Crew


def test_same_key_from_many_threads_is_one_run(crew: Callable[[int], Crew]) -> None:
    threads = crew(16)
    for number in range(5):
        start = workflows.count_once.using(key=f"story-{number}").start
        started = threads.together(*[partial(start, number)] * 16)

        assert {type(run) for run in started} == {Run}, started
        assert len({run.pk for run in started}) == 1
        assert Event.objects.filter(run=started[0], type=Event.Type.RUN_STARTED).count() == 1
    assert work("default") == 5
    assert sorted(workflows.done) == list(range(5))


def test_different_keys_at_once_are_as_many_runs(crew: Callable[[int], Crew]) -> None:
    starts = [workflows.count_once.using(key=f"story-{number}").start for number in range(16)]
    started = crew(16).together(*[partial(start, 1) for start in starts])
    assert len({run.pk for run in started}) == 16
