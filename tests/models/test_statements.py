"""The statements of every turn: with the ORM, and written out for PostgreSQL, they do the same."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import DEFAULT_DB_ALIAS, DataError, connection
from django.utils import timezone

from django_stephooks.exceptions import HookAlreadyReceivedError, RunLostError
from django_stephooks.models import Event, Hook, Run, StepCheckpoint
from django_stephooks.models.fields import Encoded
from django_stephooks.models.hook import received
from django_stephooks.models.postgres import PostgresStatements
from django_stephooks.models.run import completed, failed, handed_back, leased, suspended
from django_stephooks.models.statements import Changes, Entry, Statements, statements
from tests.factories import CheckpointFactory, EventFactory, HookFactory, RunFactory, UserFactory

pytestmark = pytest.mark.django_db

KINDS = [Statements, PostgresStatements]
STATES = ["pending", "running", "suspended", "completed", "failed", "cancelled"]


@pytest.fixture(params=KINDS)
def write(request: pytest.FixtureRequest) -> Statements:
    if request.param is PostgresStatements and connection.vendor != "postgresql":
        pytest.skip("These statements are for PostgreSQL.")
    return request.param(DEFAULT_DB_ALIAS)


def entry(type: Event.Type = Event.Type.STEP_STARTED, call: str = "a:1", data: Any = None) -> Entry:
    return Entry(type, call, {} if data is None else data, timezone.now())


def new_hook(call: str = "a:1/ask:1", **fields: Any) -> Hook:
    return Hook(call=call, name="ask", created_at=timezone.now(), **fields)


def test_postgresql_has_its_own() -> None:
    expected = PostgresStatements if connection.vendor == "postgresql" else Statements
    assert type(statements(DEFAULT_DB_ALIAS)) is expected


# --- claim -----------------------------------------------------------------------------------------


def test_the_run_that_has_been_ready_for_longest_is_claimed(write: Statements) -> None:
    now = timezone.now()
    RunFactory(due_at=now, turn=1)
    first = RunFactory(due_at=now - timedelta(hours=1), turn=1, arguments={"a": (1, now)})
    RunFactory(due_at=now - timedelta(hours=2), queue="slow")
    until = now + timedelta(minutes=1)

    claimed = write.claim("default", lease_until=until)

    assert claimed == first
    first.refresh_from_db()
    for run in (claimed, first):
        assert (run.status, run.turn, run.due_at) == (Run.Status.RUNNING, 2, until)
        assert run.arguments == {"a": (1, now)}
    assert claimed._state.db == DEFAULT_DB_ALIAS


def test_only_what_is_ready_is_claimed(write: Statements) -> None:
    for state in STATES[1:]:
        RunFactory(**{state: True})
    assert write.claim("default", lease_until=timezone.now()) is None


# --- settle ----------------------------------------------------------------------------------------

COLUMNS = {
    "leased": leased(timezone.now()),
    "suspended": suspended(None),
    "suspended with a timer": suspended(timezone.now()),
    "handed back": handed_back(timezone.now()),
    "completed": completed(Encoded('{"$t":"decimal","v":"1.50"}'), timezone.now()),
    "completed with None": completed(None, timezone.now()),
    "failed": failed({"message": "50 % of 'it' \\ \u2028"}, timezone.now()),
}


@pytest.mark.parametrize("columns", COLUMNS.values(), ids=COLUMNS)
def test_a_turn_changes_the_row_that_it_holds(write: Statements, columns: dict[str, Any]) -> None:
    run, other = RunFactory(running=True, turn=3), RunFactory(running=True, turn=3)
    expected = RunFactory(running=True)
    for name, value in columns.items():
        setattr(expected, name, value)

    write.settle(run, columns, Changes(), now=timezone.now())

    run.refresh_from_db()
    assert {name: getattr(run, name) for name in columns} == {
        name: getattr(expected, name) for name in columns
    }
    unchanged = Run.objects.get(pk=other.pk)
    assert (unchanged.status, unchanged.due_at, unchanged.result) == (Run.Status.RUNNING, other.due_at, None)


@pytest.mark.parametrize("state", [state for state in STATES if state != "running"])
def test_of_a_row_that_it_does_not_hold_it_changes_nothing(write: Statements, state: str) -> None:
    run = RunFactory(**({} if state == "pending" else {state: True}), turn=3)
    with pytest.raises(RunLostError):
        write.settle(run, handed_back(timezone.now()), everything(run), now=timezone.now())
    assert nothing_of_it(run)


def test_of_a_later_turns_row_it_changes_nothing(write: Statements) -> None:
    run = RunFactory(running=True, turn=3)
    Run.objects.filter(pk=run.pk).update(turn=4)
    with pytest.raises(RunLostError):
        write.settle(run, handed_back(timezone.now()), everything(run), now=timezone.now())
    assert nothing_of_it(run)


def everything(run: Run) -> Changes:
    told = HookFactory(run=run, call="told:1")
    CheckpointFactory(run=run, call="dropped:1")
    return Changes(
        events=[entry()],
        hooks=[new_hook(run=run)],
        notified=[told],
        checkpoints={"saved:1": "1"},
        dropped_checkpoints=["dropped:1"],
    )


def nothing_of_it(run: Run) -> bool:
    return (
        not run.events.filter(type=Event.Type.STEP_STARTED).exists()
        and [hook.notified_at for hook in run.hooks.all()] == [None]
        and [checkpoint.call for checkpoint in run.checkpoints.all()] == ["dropped:1"]
    )


def test_events_are_written_in_order(write: Statements) -> None:
    run = RunFactory(running=True)
    calls = [f"step:{number}" for number in range(40)]
    data = {"text": "50 % of \\ 'it' \x00 {rows}", "when": timezone.now(), "n": 2**70}
    changes = Changes(events=[entry(call=call, data=data) for call in calls])
    write.settle(run, leased(timezone.now()), changes, now=timezone.now())
    written = run.events.exclude(type=Event.Type.RUN_STARTED).order_by("pk")
    assert [event.call for event in written] == calls
    assert written[0].data == data


def test_so_many_events_that_no_statement_takes_them_are_written_too(write: Statements) -> None:
    run = RunFactory(running=True)
    changes = Changes(events=[entry(call=f"step:{number}") for number in range(14_000)])
    write.settle(run, leased(timezone.now()), changes, now=timezone.now())
    written = run.events.exclude(type=Event.Type.RUN_STARTED).order_by("pk")
    assert list(written.values_list("call", flat=True)) == [entry.call for entry in changes.events]


def test_hooks_are_stored_as_they_are_and_know_their_keys(write: Statements) -> None:
    run = RunFactory(running=True)
    now = timezone.now()
    full = {
        "title": "50 % {rows}",
        "description": "line\nline",
        "context": {"amount": {1, 2}},
        "reviewers": ["dana"],
        "schema": "a.b:C",
        "on_timeout": Hook.OnTimeout.RETURN,
        "expires_at": now + timedelta(hours=1),
    }
    hooks = [new_hook(f"ask:{number}", run=run, **(full if number == 7 else {})) for number in range(20)]
    write.settle(run, suspended(None), Changes(hooks=hooks), now=now)
    stored = list(Hook.objects.order_by("call"))
    assert len(stored) == 20
    for hook in hooks:
        (twin,) = [found for found in stored if found.call == hook.call]
        assert hook.pk == twin.pk
        assert not hook._state.adding
        for field in Hook._meta.concrete_fields:
            assert getattr(twin, field.attname) == getattr(hook, field.attname), field.attname


def test_what_is_too_long_for_its_column_is_refused_and_not_cut(write: Statements) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has no lengths.")
    run = RunFactory(running=True)
    hook = new_hook(run=run)
    hook.name = "x" * 101
    with pytest.raises(DataError):
        write.settle(run, suspended(None), Changes(hooks=[hook]), now=timezone.now())


def test_who_was_told_is_noted(write: Statements) -> None:
    run, now = RunFactory(running=True), timezone.now()
    told, untold = HookFactory(run=run, call="a:1"), HookFactory(run=run, call="b:1")
    write.settle(run, suspended(None), Changes(notified=[told]), now=now)
    told.refresh_from_db()
    untold.refresh_from_db()
    assert (told.notified_at, untold.notified_at) == (now, None)


def test_a_checkpoint_is_written_over(write: Statements) -> None:
    run, now = RunFactory(running=True), timezone.now()
    CheckpointFactory(run=run, call="a:1", data="old")
    changes = Changes(checkpoints={"a:1": '"new"', "b:1": "[1]"}, emitted={"a:1": 3})
    write.settle(run, leased(now), changes, now=now)
    assert write.checkpoint(run, "a:1") == ("new", 3)
    assert write.checkpoint(run, "b:1") == ([1], 0)
    assert write.checkpoint(run, "c:1") is None
    assert {checkpoint.saved_at for checkpoint in run.checkpoints.all()} == {now}


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        (Changes(dropped_checkpoints=["a:1", "c:1"]), ["b:1"]),
        (Changes(drops_all_checkpoints=True, dropped_checkpoints=["a:1"]), []),
    ],
)
def test_checkpoints_are_dropped(write: Statements, changes: Changes, left: list[str]) -> None:
    run, other = RunFactory(running=True), CheckpointFactory(call="a:1")
    for call in ("a:1", "b:1", "c:1"):
        CheckpointFactory(run=run, call=call)
    write.settle(run, leased(timezone.now()), changes, now=timezone.now())
    assert [checkpoint.call for checkpoint in run.checkpoints.all()] == left
    assert StepCheckpoint.objects.filter(pk=other.pk).exists()


# --- journal ---------------------------------------------------------------------------------------


def test_the_journal_is_what_is_replayed_from_and_the_hooks(write: Statements) -> None:
    run = RunFactory(running=True)
    EventFactory()
    assert [list(part) for part in write.journal(run)] == [[], []]
    EventFactory(run=run, type=Event.Type.RUN_STARTED)
    EventFactory(run=run, type=Event.Type.STEP_COMPLETED, call="a:1", data={"result": (1, 2)})
    EventFactory(run=run, type=Event.Type.STEP_COMPLETED, call="b:1", data=Encoded("unreadable"))
    hook = HookFactory(run=run, call="ask:1", received=True, answer={"yes": [1]})
    HookFactory()

    events, hooks = write.journal(run)

    assert list(events) == [
        ("step_completed", "a:1", {"result": (1, 2)}),
        ("step_completed", "b:1", Encoded("unreadable")),
        ("hook_created", "ask:1", {"expires_at": None}),
    ]
    (loaded,) = hooks
    assert (loaded, loaded.payload, loaded.status) == (hook, {"yes": [1]}, "received")
    assert loaded.settled_at == hook.settled_at
    assert loaded.title == hook.title  # left out, and read when somebody asks


# --- answers ---------------------------------------------------------------------------------------


def answer(payload: Any, by: Any = None) -> dict[str, Any]:
    return received(payload, by=by, label="dana", channel="api", now=timezone.now())


def test_an_answer_is_stored_noted_and_wakes_the_run(write: Statements) -> None:
    hook, user = HookFactory(), UserFactory()
    found = write.hook(hook.public_id)
    assert found == hook
    run, locked = write.lock(hook.run_id, hook.pk)
    assert (run, locked) == (hook.run, hook)
    assert (locked.title, locked.context, locked.reviewers) == (hook.title, hook.context, hook.reviewers)

    note = entry(Event.Type.HOOK_RECEIVED, locked.call, {"by": "dana"})
    write.receive(locked, answer({"yes": 1}, by=user.pk), note)

    hook.refresh_from_db()
    assert (hook.status, hook.payload, hook.answered_by) == ("received", {"yes": 1}, user)
    assert (hook.answered_by_label, hook.channel) == ("dana", "api")
    (event,) = Event.objects.filter(run=run, type=Event.Type.HOOK_RECEIVED)
    assert (event.type, event.call, event.data) == ("hook_received", hook.call, {"by": "dana"})
    run.refresh_from_db()
    assert (run.status, run.due_at) == (Run.Status.PENDING, note.at)


def test_an_answer_leaves_a_run_at_work_alone(write: Statements) -> None:
    hook = HookFactory(run=RunFactory(running=True))
    write.receive(hook, answer(None), entry(Event.Type.HOOK_RECEIVED))
    run = Run.objects.get()
    assert (run.status, run.due_at) == (Run.Status.RUNNING, hook.run.due_at)


@pytest.mark.parametrize("state", ["received", "expired", "cancelled"])
def test_a_settled_hook_takes_no_answer(write: Statements, state: str) -> None:
    hook = HookFactory(**{state: True})
    before = [list(model.objects.values()) for model in (Run, Hook, Event)]
    with pytest.raises(HookAlreadyReceivedError):
        write.receive(hook, answer("late"), entry(Event.Type.HOOK_RECEIVED))
    assert [list(model.objects.values()) for model in (Run, Hook, Event)] == before


def test_what_is_not_there_is_not_found(write: Statements) -> None:
    hook = HookFactory()
    public_id = hook.public_id
    run_id, hook_id = hook.run_id, hook.pk
    Hook.objects.all().delete()
    assert write.hook(public_id) is None
    with pytest.raises(Hook.DoesNotExist):
        write.lock(run_id, hook_id)
