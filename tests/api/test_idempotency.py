"""`Idempotency-Key`: a client whose connection broke sends its answer again, and nothing goes wrong."""

from __future__ import annotations

from typing import Any

import pytest

from django_stephooks.models import Event, Hook, Run
from tests.factories import HookFactory

from .conftest import Client, client_of, problem, slug

pytestmark = pytest.mark.django_db


def send(client: Client, hook: Hook, body: Any = None, *, way: str = "approve", key: str = "k-1") -> Any:
    return client.post(f"hooks/{hook.public_id}/{way}/", body or {}, headers={"Idempotency-Key": key})


def test_the_same_key_and_body_get_the_same_reply_and_answer_once(reviewer: Client):
    hook = HookFactory()

    first = send(reviewer, hook, {"comment": "Fine."})
    Run.objects.update(status=Run.Status.COMPLETED, due_at=None)
    again = send(reviewer, hook, {"comment": "Fine."})

    assert (first.status_code, again.status_code) == (200, 200)
    assert first.content == again.content
    (event,) = Event.objects.filter(type=Event.Type.HOOK_RECEIVED)
    assert event.data["idempotency"]["key"] == "k-1"


def test_the_order_of_members_makes_no_other_body(reviewer: Client):
    hook = HookFactory()
    address = f"hooks/{hook.public_id}/resume/"
    headers = {"Idempotency-Key": "k"}

    for text in ('{"payload": {"a": 1, "b": 2}}', '{ "payload":{"b":2,"a":1} }'):
        response = reviewer.post(address, text, content_type="application/json", headers=headers)
        assert response.status_code == 200


@pytest.mark.parametrize(
    ("way", "body"), [("approve", {"comment": "x"}), ("reject", {"comment": "Fine."}), ("reject", {})]
)
def test_the_same_key_with_another_answer_is_refused(reviewer: Client, way: str, body: Any):
    hook = HookFactory()
    send(reviewer, hook, {"comment": "Fine."})

    response = send(reviewer, hook, body, way=way)

    assert (response.status_code, slug(response)) == (422, "idempotency-key-reused")
    hook.refresh_from_db()
    assert hook.payload["approved"] is True


def test_another_key_is_another_answer(reviewer: Client):
    hook = HookFactory()
    send(reviewer, hook)

    assert slug(send(reviewer, hook, key="k-2")) == "already-answered"


def test_a_key_of_somebody_else_is_not_mine(reviewer: Client):
    hook = HookFactory()
    send(reviewer, hook)

    assert slug(send(client_of("view_hook", "review_hook"), hook)) == "already-answered"


def test_a_key_does_not_answer_for_who_lost_the_permission(reviewer: Client):
    hook = HookFactory()
    send(reviewer, hook)
    reviewer.user.user_permissions.remove(reviewer.user.user_permissions.get(codename="review_hook"))

    assert slug(send(reviewer, hook)) == "not-allowed"


def test_an_answer_without_a_key_is_nobody_s_repetition(reviewer: Client):
    hook = HookFactory()
    reviewer.post(f"hooks/{hook.public_id}/approve/", {})

    assert slug(send(reviewer, hook)) == "already-answered"


def test_what_was_refused_can_be_corrected_under_the_same_key(reviewer: Client):
    hook = HookFactory()

    assert send(reviewer, hook, {}, way="reject").status_code == 400
    assert send(reviewer, hook, {"comment": "No."}, way="reject").status_code == 200


def test_a_system_with_a_token_repeats_itself_too(anyone: Client):
    hook = HookFactory()
    headers = {"Idempotency-Key": "delivery-7"}
    address = f"resume/{hook.token}/"

    first = anyone.post(address, {"payload": 1}, headers=headers)
    again = anyone.post(address, {"payload": 1}, headers=headers)
    other = anyone.post(address, {"payload": 2}, headers=headers)

    assert (first.status_code, again.status_code, first.content) == (200, 200, again.content)
    assert slug(other) == "idempotency-key-reused"


@pytest.mark.parametrize("key", ["", "x" * 201, "k\u00e9"])
def test_what_is_no_key_is_refused(reviewer: Client, key: str):
    hook = HookFactory()

    response = send(reviewer, hook, key=key)

    assert response.status_code == 400
    assert list(problem(response)["errors"]) == ["Idempotency-Key"]
    hook.refresh_from_db()
    assert hook.status == Hook.Status.PENDING


def test_a_journal_that_can_not_be_read_knows_no_key(reviewer: Client):
    from django_stephooks.models.fields import Encoded

    hook = HookFactory()
    send(reviewer, hook)
    Event.objects.filter(type=Event.Type.HOOK_RECEIVED).update(data=Encoded('{"$t":"gone"}'))

    assert slug(send(reviewer, hook)) == "already-answered"
