"""Answering over the API: the payload, the rules, and what is said to whoever can not answer."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from rest_framework.test import APIRequestFactory, force_authenticate

from django_stephooks import signals
from django_stephooks.api.answers import Approve
from django_stephooks.models import Event, Hook, Run
from django_stephooks.services.rules import actions_for
from tests.factories import HookFactory, UserFactory

from .conftest import Client, client_of, problem, slug

pytestmark = pytest.mark.django_db

ANSWERS: dict[str, dict[str, Any]] = {
    "approve": {"comment": "Fine."},
    "reject": {"comment": "No."},
    "resume": {"payload": {"approved": True}},
}


@pytest.fixture(params=ANSWERS)
def answer(request: pytest.FixtureRequest) -> Callable[[Client, Hook], Any]:
    """Each of the three ways to answer."""
    way = request.param
    return lambda client, hook: client.post(f"hooks/{hook.public_id}/{way}/", ANSWERS[way])


def events(hook: Hook) -> list[Event]:
    return list(Event.objects.filter(run=hook.run_id, type=Event.Type.HOOK_RECEIVED))


# --- taken ---


@pytest.mark.parametrize(
    ("way", "body", "payload"),
    [
        ("approve", {}, {"approved": True, "comment": ""}),
        ("approve", {"comment": " Fine. "}, {"approved": True, "comment": "Fine."}),
        ("reject", {"comment": "No."}, {"approved": False, "comment": "No."}),
    ],
)
def test_the_least_privileged_reviewer_decides(reviewer: Client, way: str, body: Any, payload: Any):
    hook = HookFactory()

    response = reviewer.post(f"hooks/{hook.public_id}/{way}/", body)

    assert response.status_code == 200, response.content
    hook.refresh_from_db()
    assert hook.payload == {**payload, "reviewer": reviewer.user.username}
    assert (hook.answered_by, hook.channel) == (reviewer.user, "api")
    assert Run.objects.get().status == Run.Status.PENDING
    assert response.json() == {
        "id": str(hook.public_id),
        "run": str(hook.run.public_id),
        "status": "received",
        "answered_by": reviewer.user.username,
        "answered_at": hook.settled_at.isoformat().replace("+00:00", "Z"),
        "channel": "api",
    }


def test_approving_needs_no_body(reviewer: Client):
    hook = HookFactory()

    assert reviewer.post(f"hooks/{hook.public_id}/approve/").status_code == 200


@pytest.mark.parametrize(
    "payload", [None, False, 0, "", [], {}, {"$t": "decimal", "v": "1"}, "a\x00b\ud800", 10**4000]
)
def test_any_json_resumes_a_hook_unchanged(reviewer: Client, payload: Any):
    hook = HookFactory()

    assert reviewer.post(f"hooks/{hook.public_id}/resume/", {"payload": payload}).status_code == 200

    hook.refresh_from_db()
    assert (hook.payload, type(hook.payload)) == (payload, type(payload))


def test_a_payload_that_fits_the_schema_is_taken(reviewer: Client):
    hook = HookFactory(schema="tests.api.forms:Strict")

    assert reviewer.post(f"hooks/{hook.public_id}/resume/", {"payload": {"grade": 2}}).status_code == 200


# --- not taken: what is wrong with the body ---


@pytest.mark.parametrize("body", [{}, {"comment": ""}, {"comment": " \n"}, {"comment": None}])
def test_rejecting_takes_a_comment(reviewer: Client, body: Any):
    hook = HookFactory()

    response = reviewer.post(f"hooks/{hook.public_id}/reject/", body)

    assert (response.status_code, slug(response)) == (400, "invalid-payload")
    assert problem(response)["errors"] == {
        "comment": ["Say why: whoever reads this has to know what to change."]
    }
    hook.refresh_from_db()
    assert hook.status == Hook.Status.PENDING


@pytest.mark.parametrize(
    ("way", "body", "fields"),
    [
        ("approve", {"coment": "x"}, ["coment"]),
        ("approve", {"comment": "a\x00b"}, ["comment"]),
        ("approve", {"comment": "\ud800"}, ["comment"]),
        ("approve", {"comment": {"a": 1}}, ["comment"]),
        ("approve", {"seen": "x"}, ["seen"]),
        ("approve", [], ["__all__"]),
        ("resume", {}, ["payload"]),
        ("resume", {"approved": True}, ["approved"]),
    ],
)
def test_a_body_that_says_something_else_is_refused_by_field(
    reviewer: Client, way: str, body: Any, fields: list[str]
):
    hook = HookFactory()

    response = reviewer.post(f"hooks/{hook.public_id}/{way}/", body)

    assert (response.status_code, slug(response)) == (400, "invalid-payload")
    assert list(problem(response)["errors"]) == fields
    assert not events(hook)


@pytest.mark.parametrize("schema", ["tests.api.forms:Strict", "tests.api.forms:GradeForm"])
def test_a_payload_that_does_not_fit_uses_nothing_up(reviewer: Client, schema: str):
    hook = HookFactory(schema=schema)
    address = f"hooks/{hook.public_id}/resume/"

    refused = reviewer.post(address, {"payload": {"grade": "high"}})

    assert (refused.status_code, slug(refused)) == (400, "invalid-payload")
    assert list(problem(refused)["errors"]) == ["grade"]
    assert reviewer.post(address, {"payload": {"grade": 2}}).status_code == 200


def test_a_schema_that_is_gone_is_our_fault_and_tells_no_names(reviewer: Client):
    hook = HookFactory(schema="tests.api.forms:Gone")

    response = reviewer.post(f"hooks/{hook.public_id}/resume/", {"payload": 1})

    assert (response.status_code, slug(response)) == (500, "broken")
    assert "forms" not in response.content.decode()


# --- not taken: the rules ---


def test_a_hook_that_one_may_not_see_can_not_be_answered(answer: Any):
    hook = HookFactory()

    response = answer(client_of("review_hook"), hook)

    assert (response.status_code, slug(response)) == (404, "not-found")
    assert not events(hook)


@pytest.mark.parametrize("way", ANSWERS)
def test_a_hook_that_is_not_there_can_not_be_answered(reviewer: Client, way: str):
    response = reviewer.post(f"hooks/{uuid.uuid4()}/{way}/", ANSWERS[way])

    assert (response.status_code, slug(response)) == (404, "not-found")


@pytest.mark.parametrize("case", ["no permission", "another's", "own run", "permission lost"])
def test_whoever_may_not_answer_is_told_the_rule(answer: Any, case: str):
    client = client_of("view_hook", *([] if case == "no permission" else ["review_hook"]))
    hook = HookFactory(
        reviewers=["user:999999"] if case == "another's" else None,
        run__started_by=client.user if case == "own run" else None,
    )
    if case == "permission lost":
        client.user.user_permissions.remove(client.user.user_permissions.get(codename="review_hook"))
        client.user = type(client.user).objects.get()

    response = answer(client, hook)

    assert (response.status_code, slug(response)) == (403, "not-allowed")
    assert problem(response)["detail"] == actions_for(client.user, hook).reason
    assert not events(hook)


def test_a_deactivated_reviewer_is_nobody(reviewer: Client, answer: Any):
    hook = HookFactory()
    reviewer.user.is_active = False
    reviewer.user.save()

    response = answer(reviewer, hook)

    assert (response.status_code, slug(response)) == (403, "not-authenticated")
    assert not events(hook)


@pytest.mark.parametrize("exists", [True, False])
def test_a_deactivated_reviewer_whom_an_authentication_lets_through_is_told_so(exists: bool):
    user = UserFactory(permissions=["view_hook", "review_hook"], is_active=False)
    hook = HookFactory()
    public_id = hook.public_id if exists else uuid.uuid4()
    request = APIRequestFactory().post("/", {}, format="json")
    force_authenticate(request, user)

    response = Approve.as_view()(request, public_id=public_id)

    if exists:
        assert response.data["type"] == "urn:stephooks:not-allowed"
        assert response.data["detail"] == actions_for(user, hook).reason
    else:
        assert response.data["type"] == "urn:stephooks:not-found"
    assert not events(hook)


@pytest.mark.parametrize(
    ("state", "status", "kind"),
    [
        ({"received": True}, 409, "already-answered"),
        ({"past_deadline": True}, 410, "expired"),
        ({"expired": True}, 410, "expired"),
        ({"cancelled": True}, 410, "cancelled"),
    ],
)
def test_whoever_comes_too_late_is_told_what_became_of_it(
    reviewer: Client, answer: Any, state: Any, status: int, kind: str
):
    hook = HookFactory(**state)

    response = answer(reviewer, hook)

    assert (response.status_code, slug(response)) == (status, kind)
    assert problem(response)["detail"] == actions_for(reviewer.user, hook).reason
    assert len(events(hook)) == (1 if kind == "already-answered" else 0)


@pytest.mark.parametrize("state", [{"received": True}, {"past_deadline": True}, {"cancelled": True}])
def test_whoever_comes_too_late_is_told_so_whatever_they_wrote(reviewer: Client, state: Any):
    hook = HookFactory(**state)

    response = reviewer.post(f"hooks/{hook.public_id}/reject/", {})

    assert problem(response)["detail"] == actions_for(reviewer.user, hook).reason


def test_an_overdue_hook_can_still_be_answered(reviewer: Client, answer: Any):
    assert answer(reviewer, HookFactory(overdue=True)).status_code == 200


def test_the_second_reviewer_is_told_who_was_first(reviewer: Client, answer: Any):
    dana = UserFactory(username="dana", permissions=["review_hook"])
    hook = HookFactory(received=True, by=dana, answer={"approved": False, "comment": "Numbers"})

    told = problem(answer(reviewer, hook))

    assert (told["answered_by"], told["approved"]) == ("dana", False)
    assert told["answered_at"] == hook.settled_at.isoformat().replace("+00:00", "Z")
    assert "already answered by dana" in told["detail"]


def test_getting_an_answer_s_address_changes_nothing(reviewer: Client):
    hook = HookFactory()

    for way in ANSWERS:
        for method in ("get", "head", "options", "put", "patch", "delete"):
            assert getattr(reviewer, method)(f"hooks/{hook.public_id}/{way}/").status_code == 405
    assert not events(hook)


def test_a_session_needs_its_csrf_token():
    client = client_of("view_hook", "review_hook")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(client.user)
    hook = HookFactory()

    response = strict.post(f"hooks/{hook.public_id}/approve/", {})

    assert (response.status_code, slug(response)) == (403, "not-allowed")
    assert "CSRF" in problem(response)["detail"]


def test_nobody_answers_without_logging_in(anyone: Client, answer: Any):
    assert isinstance(anyone.user or AnonymousUser(), AnonymousUser)
    hook = HookFactory()

    assert slug(answer(anyone, hook)) == "not-authenticated"
    assert not events(hook)


# --- what I saw ---


def test_an_answer_to_what_one_saw_is_taken_and_noted(reviewer: Client):
    hook = HookFactory(context={"n": 1})
    digest = reviewer.get(f"hooks/{hook.public_id}/").json()["digest"]

    assert reviewer.post(f"hooks/{hook.public_id}/approve/", {"seen": digest}).status_code == 200
    assert events(hook)[0].data["seen"] == digest


def test_an_answer_to_what_has_changed_is_refused(reviewer: Client, answer: Any):
    hook = HookFactory(context={"n": 1})
    digest = reviewer.get(f"hooks/{hook.public_id}/").json()["digest"]
    Hook.objects.update(context={"n": 2})

    response = reviewer.post(f"hooks/{hook.public_id}/approve/", {"seen": digest})

    assert (response.status_code, slug(response)) == (409, "changed")
    assert not events(hook)
    assert answer(reviewer, hook).status_code == 200


# --- around the transaction ---


@pytest.mark.django_db(transaction=True)
def test_an_expiry_found_out_by_an_answer_is_kept_under_atomic_requests(
    reviewer: Client, django_db_blocker: Any
):
    from django.db import connection

    hook = HookFactory(past_deadline=True)
    connection.settings_dict["ATOMIC_REQUESTS"] = True
    try:
        response = reviewer.post(f"hooks/{hook.public_id}/approve/", {})
    finally:
        connection.settings_dict["ATOMIC_REQUESTS"] = False

    assert slug(response) == "expired"
    hook.refresh_from_db()
    assert hook.status == Hook.Status.EXPIRED


@pytest.mark.django_db(transaction=True)
def test_receivers_are_told_of_an_answer_over_the_api(reviewer: Client):
    seen: list[str] = []

    def receiver(hook: Hook, **kwargs: Any) -> None:
        seen.append(hook.channel)

    signals.hook_received.connect(receiver)
    try:
        reviewer.post(f"hooks/{HookFactory().public_id}/approve/", {})
    finally:
        signals.hook_received.disconnect(receiver)
    assert seen == ["api"]
