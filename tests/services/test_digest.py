"""The digest of what a hook asks: the same for the same question, in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest

from django_stephooks.exceptions import HookChangedError
from django_stephooks.models import Event, Hook
from django_stephooks.models.fields import Encoded
from django_stephooks.services.digest import digest_of
from django_stephooks.services.hooks import resume_hook
from tests.factories import HookFactory

CONTEXT = {
    "when": datetime(2026, 11, 30, tzinfo=UTC),
    "tags": {"alpha", "beta", "gamma", "delta"},
    "sets": [frozenset({("a", 1), ("b", 2)})],
    "surrogate": "\ud800",
    "$t": "set",
}
# Strings are hashed with another seed in each process, so its sets come in another order.
SCRIPT = f"""
import datetime, os
from datetime import UTC
import django
django.setup()
from django_stephooks.models import Hook
from django_stephooks.services.digest import digest_of
print(digest_of(Hook(title="T", call="a:1", context={CONTEXT!r})))
"""


def test_every_process_makes_the_same_digest():
    def elsewhere(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "DJANGO_SETTINGS_MODULE": "tests.settings"}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    digest = digest_of(Hook(title="T", call="a:1", context=CONTEXT))

    assert {elsewhere(seed) for seed in ("1", "2", "3")} == {digest}
    assert len(digest) == 64


@pytest.mark.django_db
def test_a_row_has_the_digest_that_it_had_before_it_was_stored():
    hook = HookFactory(context=CONTEXT)

    assert digest_of(Hook.objects.get()) == digest_of(hook)
    assert digest_of(Hook.objects.defer("context").get()) == digest_of(hook)


@pytest.mark.parametrize(
    "change",
    [
        {"title": "U"},
        {"description": "D"},
        {"context": {"n": 2}},
        {"context": None},
        {"context": {"n": True}},
        {"schema": "a:B"},
        {"call": "a:2"},
    ],
)
def test_whatever_is_shown_makes_another_digest(change: dict[str, Any]):
    asked: dict[str, Any] = {"title": "T", "call": "a:1", "context": {"n": 1}}

    assert digest_of(Hook(**asked)) != digest_of(Hook(**{**asked, **change}))


@pytest.mark.parametrize("text", ['{"$t":"gone"}', "no JSON", "[" * 100_000])
def test_a_context_that_can_not_be_read_has_a_digest_of_its_text(text: str):
    digest = digest_of(Hook(title="T", context=Encoded(text)))

    assert digest != digest_of(Hook(title="T"))
    assert digest == digest_of(Hook(title="T", context=Encoded(text)))


@pytest.mark.django_db
def test_what_was_seen_is_noted_with_the_answer():
    hook = HookFactory(context=CONTEXT)

    resume_hook(hook.token, 1, seen=digest_of(hook), note={"address": "192.0.2.1", "channel": "not this"})

    data = Event.objects.get(type=Event.Type.HOOK_RECEIVED).data
    assert (data["seen"], data["address"], data["channel"]) == (digest_of(hook), "192.0.2.1", "python")


@pytest.mark.django_db
def test_an_answer_to_what_has_changed_uses_nothing_up():
    hook = HookFactory(context={"n": 1})
    seen = digest_of(hook)
    Hook.objects.update(context={"n": 2})

    with pytest.raises(HookChangedError) as caught:
        resume_hook(hook.token, 1, seen=seen)

    assert caught.value.hook.context == {"n": 2}
    hook.refresh_from_db()
    assert hook.status == Hook.Status.PENDING
    resume_hook(hook.token, 1, seen=digest_of(hook))


@pytest.mark.django_db
def test_who_comes_too_late_is_told_so_before_what_has_changed():
    from django_stephooks.exceptions import HookAlreadyReceivedError

    hook = HookFactory(received=True)

    with pytest.raises(HookAlreadyReceivedError):
        resume_hook(hook.token, 1, seen="something else")
