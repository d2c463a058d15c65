"""Rows that somebody has tampered with: they break no list, no sweep, no other run, and can be cancelled."""

from __future__ import annotations

import contextlib
import io
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from hypothesis import example, given
from hypothesis import strategies as st

from django_stephooks import cancel_run
from django_stephooks.engine.worker import work
from django_stephooks.models import Event, Hook, Run, StepCheckpoint
from django_stephooks.models.fields import Encoded
from django_stephooks.services.sweep import sweep
from tests.factories import CheckpointFactory, EventFactory, HookFactory, RunFactory, UserFactory
from tests.review.visiting import path_of

from . import material
from .material import thrown

pytestmark = pytest.mark.django_db

# Columns of recorded values, which are text; and others that hold what code wrote.
RECORDS = [
    (Hook, "context"),
    (Hook, "reviewers"),
    (Hook, "payload"),
    (Run, "arguments"),
    (Run, "result"),
    (Run, "error"),
    (Event, "data"),
    (StepCheckpoint, "data"),
]
TEXTS = [
    (Hook, "title", 100),
    (Hook, "description", 100),
    (Hook, "call", 100),
    (Hook, "name", 100),
    (Hook, "schema", 100),
    (Hook, "on_timeout", 7),
    (Hook, "answered_by_label", 100),
    (Hook, "channel", 20),
    (Run, "workflow", 100),
    (Run, "queue", 100),
    (Run, "subject_id", 64),
    (Event, "type", 20),
    (Event, "call", 100),
    (StepCheckpoint, "call", 100),
]
STATES: list[dict[str, Any]] = [
    {},
    {"received": True},
    {"past_deadline": True},
    {"expired": True},
    {"cancelled": True},
]
RUNS: list[dict[str, Any]] = [
    {},
    {"crashed": True},
    {"sleeping": True},
    {"completed": True},
    {"failed": True},
]

damages = st.one_of(
    st.tuples(st.sampled_from(RECORDS), material.stored_texts).map(lambda one: (*one[0], Encoded(one[1]))),
    st.sampled_from(TEXTS).flatmap(
        lambda column: st.tuples(
            st.just(column[0]),
            st.just(column[1]),
            (
                material.storable_text
                | st.sampled_from([*material.PATHS, "tests.app.workflows.publish", "default"])
            ).map(lambda text: text[: column[2]]),
        )
    ),
)


def everything(hook_state: dict[str, Any], run_state: dict[str, Any]) -> Run:
    """A run with a row of each table, of which the damaged one is a part."""
    hook = HookFactory(context={"a": 1}, reviewers=["email:dana@example.com"], **hook_state)
    run: Run = hook.run
    CheckpointFactory(run=run)
    EventFactory(
        run=run,
        type=Event.Type.STEP_RETRYING,
        call="review:1",
        data={"attempt": 1, "due_at": timezone.now(), "error": {"type": "a:B", "message": "m"}},
    )
    EventFactory(run=run, type=Event.Type.TIMER_STARTED, call="sleep:1", data={"due_at": timezone.now()})
    other = RunFactory(**run_state)
    EventFactory(run=other, type=Event.Type.STEP_COMPLETED, call="review:1", data={"result": 1})
    return run


def pages_of(run: Run) -> list[str]:
    hook = run.hooks.get()
    other = Run.objects.exclude(pk=run.pk).latest("pk")
    admin = [
        reverse("admin:index"),
        *(
            f"{reverse('admin:django_stephooks_hook_changelist')}{query}"
            for query in ("", "?status=all", "?awaiting=me", "?q=a")
        ),
        *(f"{reverse('admin:django_stephooks_run_changelist')}{query}" for query in ("", "?kind=all")),
        *(
            reverse(f"admin:django_stephooks_hook_{page}", args=[hook.pk])
            for page in ("change", "links", "history")
        ),
        *(
            reverse(f"admin:django_stephooks_run_{page}", args=[one.pk])
            for page in ("change", "cancel", "retry")
            for one in (run, other)
        ),
    ]
    api = [
        reverse("stephooks-api:hooks"),
        f"{reverse('stephooks-api:hooks')}?awaiting=me",
        reverse("stephooks-api:runs"),
        reverse("stephooks-api:hook", args=[hook.public_id]),
        *(
            reverse(f"stephooks-api:{page}", args=[one.public_id])
            for page in ("run", "events")
            for one in (run, other)
        ),
    ]
    return [*admin, *api, path_of(hook)]


def commands_of(run: Run) -> list[tuple[str, ...]]:
    return [
        ("hooks", "list"),
        ("runs", "list"),
        ("hooks", "show", str(run.hooks.get().pk)),
        ("runs", "show", str(run.pk)),
    ]


def a_browser(**user: Any) -> Client:
    client = Client()
    client.force_login(UserFactory(**user))
    return client


@example(damage=(Hook, "reviewers", Encoded("5")), hook_state={}, run_state={}, user={"reviewer": True})
@example(damage=(Hook, "context", Encoded("5")), hook_state={}, run_state={}, user={"reviewer": True})
@given(
    damage=damages,
    hook_state=st.sampled_from(STATES),
    run_state=st.sampled_from(RUNS),
    user=st.sampled_from([{"superuser": True}, {"reviewer": True}]),
)
@thrown(0.2)
def test_pages_and_commands_show_what_can_be_shown(
    damage: tuple[Any, str, Any], hook_state: dict[str, Any], run_state: dict[str, Any], user: dict[str, Any]
) -> None:
    Run.objects.all().delete()
    run = everything(hook_state, run_state)
    model, column, value = damage
    model.objects.update(**{column: value})
    browser = a_browser(**user)

    for address in pages_of(run):
        # The test client raises what a server would answer with 500.
        assert browser.get(address).status_code < 500, address
    for arguments in commands_of(run):
        with contextlib.suppress(CommandError):
            call_command("stephooks", *arguments, stdout=io.StringIO())


# Really committed: a worker whose database fails drops its connection, and a test's transaction with it.
@pytest.mark.django_db(transaction=True)
@given(damage=damages, hook_state=st.sampled_from(STATES), run_state=st.sampled_from(RUNS))
@thrown(0.2)
def test_sweep_and_other_runs_go_on(
    damage: tuple[Any, str, Any], hook_state: dict[str, Any], run_state: dict[str, Any]
) -> None:
    Run.objects.all().delete()
    everything(hook_state, run_state)
    model, column, value = damage
    if column not in ("queue",):
        Run.objects.filter(status=Run.Status.SUSPENDED).update(
            status=Run.Status.PENDING, due_at=timezone.now()
        )
    model.objects.update(**{column: value})
    damaged = set(Run.objects.values_list("pk", flat=True))
    # The last in its queue: whatever comes before it must have been dealt with.
    healthy = RunFactory(
        workflow="tests.app.workflows.echo",
        arguments={"value": 1},
        created_at=timezone.now() + timedelta(seconds=1),
    )

    for later in range(6):
        sweep(now=timezone.now() + timedelta(days=later))
        work("default")

    healthy.refresh_from_db()
    assert healthy.status == Run.Status.COMPLETED
    # And nothing is left that nobody could end.
    for pk in damaged:
        status = Run.objects.values_list("status", flat=True).get(pk=pk)
        # (Only a worker of its queue takes a run that was put into another one.)
        assert status != Run.Status.RUNNING
        if status in Run.ACTIVE:
            cancel_run(pk)
            assert Run.objects.filter(pk=pk, status=Run.Status.CANCELLED).exists()
