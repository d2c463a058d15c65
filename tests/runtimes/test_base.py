"""Which runtime a setting means, and what is said about one that means none."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction

from django_stephooks.runtimes import base
from django_stephooks.runtimes.base import Runtime, get_runtime
from django_stephooks.runtimes.inline import InlineRuntime
from django_stephooks.runtimes.rq import RQRuntime


class Noting(Runtime):
    """A runtime of a project's own."""

    rung: list[str]

    def __init__(self) -> None:
        self.rung = []

    def ring(self, queue: str) -> None:
        self.rung.append(queue)


OWN = f"{__name__}.Noting"


@pytest.mark.parametrize("name, kind", [("rq", RQRuntime), ("inline", InlineRuntime)])
def test_names(settings: Any, name: str, kind: type[Runtime]) -> None:
    settings.STEPHOOKS = {"RUNTIME": name}
    assert type(get_runtime()) is kind
    assert get_runtime() is get_runtime()


def test_rq_is_the_default(settings: Any) -> None:
    settings.STEPHOOKS = {}
    assert type(get_runtime()) is RQRuntime


def test_own_runtime_needs_no_more_than_ring(settings: Any) -> None:
    settings.STEPHOOKS = {"RUNTIME": OWN}
    runtime: Any = get_runtime()
    runtime.rung.clear()
    runtime.ring("a")
    runtime.ring_again("b")
    runtime.picked_up("a")
    assert runtime.rung == ["a", "b"]


@pytest.mark.parametrize(
    "value, says",
    [
        ("inlin", "STEPHOOKS['RUNTIME'] is 'inlin'. Did you mean 'inline'?"),
        ("celery", "STEPHOOKS['RUNTIME'] is 'celery'. It must be 'rq', 'inline', or"),
        (None, "STEPHOOKS['RUNTIME'] is 'None'. It must be"),
        ("nowhere.Runtime", "could not be imported (No module named 'nowhere'). It must be"),
        ("decimal.Decimal", "is not a subclass of django_stephooks.runtimes.base.Runtime."),
        ("decimal.getcontext", "is not a subclass of"),
    ],
)
def test_wrong_value_is_answered_with_what_is_right(settings: Any, value: Any, says: str) -> None:
    settings.STEPHOOKS = {"RUNTIME": value}
    with pytest.raises(ImproperlyConfigured) as caught:
        get_runtime()
    assert says in str(caught.value)


def test_missing_django_rq_is_named(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: str) -> None:
        raise ImportError("No module named 'django_rq'")

    base._runtime.cache_clear()
    monkeypatch.setattr(base, "import_string", missing)
    settings.STEPHOOKS = {"RUNTIME": "rq"}
    with pytest.raises(ImproperlyConfigured, match="Install django-rq, or use 'inline'"):
        get_runtime()


@pytest.mark.django_db(transaction=True)
def test_rings_at_once_outside_a_transaction(settings: Any) -> None:
    settings.STEPHOOKS = {"RUNTIME": OWN}
    runtime: Any = get_runtime()
    runtime.rung.clear()
    base.ring_after_commit("default", using="default")
    assert runtime.rung == ["default"]
    with transaction.atomic():
        base.ring_after_commit("default", using="default")
        assert runtime.rung == ["default"]
    assert runtime.rung == ["default", "default"]


def test_failed_callback_has_a_name_for_djangos_log() -> None:
    assert base.RingAfterCommit("default").__qualname__ == "RingAfterCommit"
