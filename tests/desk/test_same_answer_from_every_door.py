"""Answering from anywhere is the same: the step is given the same, whichever door was used."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from django_stephooks.models import Hook, Run

from .doors import DOORS, Bulk, Door
from .workflows import asking

pytestmark = pytest.mark.django_db

DECIDED = {"approved": True, "comment": "Fine.\nBut hurry."}
PLANNED = {**DECIDED, "grade": 2, "on": "2026-12-01"}

# The class of what the step is given, what it asks for, and whether the reviewer is asked for too.
KINDS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "none": ("dict", DECIDED, True),
    "pydantic": ("Verdict", DECIDED, True),
    "form": ("dict", DECIDED, True),
    "strict": ("Strict", DECIDED, False),
    "pydantic with more": ("Plan", PLANNED, True),
    "form with more": ("dict", PLANNED, True),
}

# These take a verdict and a comment, and can not ask for more.
NARROW = {"bulk", "bulk with select_across", "API approve", "command"}
# Here a person writes a comment; the others are given the payload as a whole.
WRITTEN = NARROW | {"admin page", "link to a user", "link with a login", "link to an address"}


Commit = Callable[[], contextlib.AbstractContextManager[Any]]


@pytest.fixture
def commit(django_capture_on_commit_callbacks: Any) -> Commit:
    """`with commit():` what is done in it is committed, so turns are made."""
    return lambda: django_capture_on_commit_callbacks(execute=True)


@pytest.fixture
def ask(commit: Commit, dana: Any) -> Callable[[str, str], Door]:
    """Start a run that asks for an answer of this kind, and go to a door of Dana's."""

    def go_to(door: str, kind: str) -> Door:
        with commit():
            asking.start(kind)
        return DOORS[door](dana, Hook.objects.get())

    return go_to


@pytest.mark.parametrize(
    ("kind", "door"),
    [(kind, door) for kind in KINDS for door in DOORS if KINDS[kind][1] is DECIDED or door not in NARROW],
)
def test_step_is_given_the_same(kind: str, door: str, ask: Any, commit: Commit) -> None:
    type_name, asked, names_reviewer = KINDS[kind]
    through = ask(door, kind)
    payload = {**asked, "reviewer": through.who} if names_reviewer else asked
    through.open()

    with commit():
        reply = through.answer(payload)

    run = Run.objects.get()
    assert run.status == Run.Status.COMPLETED, reply.said
    as_python = {"on": date(2026, 12, 1)} if "on" in asked else {}
    assert run.result == {"type": type_name, "fields": {**payload, **as_python}}
    assert Hook.objects.get().payload == payload


@pytest.mark.parametrize("door", sorted(NARROW))
@pytest.mark.parametrize("kind", ["pydantic with more", "form with more"])
def test_door_that_can_not_ask_for_all_says_so_and_uses_nothing_up(kind: str, door: str, ask: Any) -> None:
    through = ask(door, kind)
    if isinstance(through, Bulk):
        through.log_in()
        assert "It asks for more than yes or no: answer it on its own page." in through.look()
    else:
        through.open()
        said = through.answer(DECIDED).said
        assert "grade: " in said
        assert "on: " in said
    assert Hook.objects.get().status == Hook.Status.PENDING


@pytest.mark.parametrize("door", sorted(WRITTEN))
def test_space_around_a_comment_is_nobodys_answer(door: str, ask: Any, commit: Commit) -> None:
    through = ask(door, "none")
    through.open()
    with commit():
        through.answer({"approved": True, "comment": "  Fine.\n"})
    assert Run.objects.get().result["fields"]["comment"] == "Fine."
