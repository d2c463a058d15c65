"""The reference of events says what the journal holds: every type, its data, and every door."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from django_stephooks.models import Event, Hook, Run
from django_stephooks.services.digest import digest_of
from django_stephooks.services.hooks import resume_hook
from django_stephooks.services.links import revoke_links
from django_stephooks.services.runs import cancel_run, retry_run
from django_stephooks.services.sweep import sweep
from tests.clock import Clock
from tests.factories import HookFactory, RunFactory

from . import workflows
from .doors import DOORS

REFERENCE = (Path(__file__).parents[2] / "docs/reference/events.md").read_text()
ROWS = {
    type: (set(re.findall(r"(?<!\()`(\w+)`", keys)), set(re.findall(r"\(`(\w+)`\)", keys)))
    for type, keys in re.findall(r"^\| `([a-z]+_[a-z]+)` \| (.*?) \|", REFERENCE, re.M)
}

CHANNELS = set(re.findall(r"`(\w+)`", re.findall(r"^\| `channel` \| (.*?) \|", REFERENCE, re.M)[0]))


def test_it_names_every_type() -> None:
    assert list(ROWS) == Event.Type.values


@pytest.mark.django_db(transaction=True)
def test_it_names_the_keys_of_each_and_every_channel(dana: Any, clock: Clock) -> None:
    live_through_everything(dana, clock)

    met = defaultdict(list)
    for event in Event.objects.all():
        met[event.type].append(set(event.data))
    assert set(met) == set(ROWS)
    channels = {event.data["channel"] for event in Event.objects.filter(type="hook_received")}
    assert channels == CHANNELS
    for type, seen in met.items():
        always, sometimes = ROWS[type]
        assert set.intersection(*seen) == always, type
        assert set.union(*seen) == always | sometimes, type


def live_through_everything(dana: Any, clock: Clock) -> None:
    """One of each event, and those of which some say more than others in both ways."""
    workflows.obstacles[:] = ["a stone", "a wall", "a deaf ear"]
    run = workflows.eventful.using(started_by=dana).start()
    for _ in ("the retry", "the timer"):
        clock.advance("2m")
        sweep()
    hook = Hook.objects.get(run=run)
    revoke_links(hook, by="the editor in chief")
    resume_hook(Hook.objects.get(run=run).token, True)
    retry_run(run, by=dana, reason="The wall is down.")

    told = workflows.telling.start()
    retry_run(told)
    cancel_run(told, by=dana, reason="Not needed.")

    first = HookFactory(race="approve:1")
    HookFactory(run=first.run, call="other:1", race="approve:1")
    resume_hook(first.token, True)

    HookFactory(expired=True)
    RunFactory(crashed=True)
    RunFactory(crashed=True, recoveries=3)
    RunFactory(crashed=True, workflow="the.next.release")
    clock.advance("1h")
    sweep()

    for door in DOORS.values():
        through = door(dana, HookFactory())
        through.open()
        through.answer({"approved": True, "comment": "Fine.", "reviewer": through.who})
    approve_over_the_api(dana, HookFactory())
    assert Run.objects.get(pk=run.pk).status == Run.Status.COMPLETED


def approve_over_the_api(dana: Any, hook: Hook) -> None:
    client = Client()
    client.force_login(dana)
    body = json.dumps({"seen": digest_of(hook)})
    address = reverse("stephooks-api:approve", args=[hook.public_id])
    response = client.post(
        address, body, content_type="application/json", headers={"Idempotency-Key": "fog-1"}
    )
    assert response.status_code == 200
