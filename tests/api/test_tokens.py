"""`POST /resume/{token}/`: other systems answer; the token is all they have, and all they need."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.core.cache import cache
from django.db import OperationalError

from django_stephooks.models import Event, Hook
from django_stephooks.services.hooks import find_hook
from tests.factories import HookFactory

from .conftest import Client, problem, slug

pytestmark = pytest.mark.django_db


def resume(client: Client, token: str, payload: Any = None, **headers: str) -> Any:
    return client.post(f"resume/{token}/", {"payload": payload}, headers=headers)


def test_who_has_the_token_answers_without_an_account_or_a_csrf_token():
    hook = HookFactory(reviewers=["user:999999"])

    response = resume(Client(enforce_csrf_checks=True), hook.token, {"score": 3})

    assert response.status_code == 200, response.content
    hook.refresh_from_db()
    assert (hook.payload, hook.channel, hook.answered_by) == ({"score": 3}, "token", None)
    assert response.json()["answered_by"] == hook.answered_by_label == "the holder of the token"


def test_the_account_of_whoever_sends_it_does_not_matter(reviewer: Client):
    hook = HookFactory(run__started_by=reviewer.user)

    assert resume(reviewer, hook.token).status_code == 200
    hook.refresh_from_db()
    assert hook.answered_by is None


@pytest.mark.parametrize("junk", [".", ")", ">", "=3D", "%0A", "%20", ",", "=="])
def test_what_mail_programs_add_to_a_token_does_not_matter(anyone: Client, junk: str):
    assert resume(anyone, HookFactory().token + junk).status_code == 200


@pytest.mark.parametrize(
    "spoil",
    [
        lambda token: token[:-1],
        lambda token: token + "A",
        lambda token: token[::-1],
        lambda token: token.swapcase(),
        lambda token: "x",
        lambda token: "%00",
        lambda token: "%ff%fe",
        lambda token: "%ED%A0%80",
        lambda token: "é" * 44,
        lambda token: "z" * 44,
        lambda token: "A" * 5000,
    ],
)
def test_what_is_no_token_is_not_found(anyone: Client, spoil: Any):
    hook = HookFactory()

    response = resume(anyone, spoil(hook.token))

    assert (response.status_code, slug(response)) == (404, "not-found")
    hook.refresh_from_db()
    assert hook.status == Hook.Status.PENDING


def test_a_revoked_token_is_not_found(anyone: Client):
    hook = HookFactory()
    token = hook.token
    Hook.objects.filter(pk=hook.pk).revoke_tokens()

    assert resume(anyone, token).status_code == 404


def test_the_token_of_a_hook_that_is_gone_is_not_found(anyone: Client):
    hook = HookFactory()
    hook.delete()

    assert resume(anyone, hook.token).status_code == 404


@pytest.mark.parametrize(
    ("state", "status", "kind"),
    [
        ({"received": True}, 409, "already-answered"),
        ({"past_deadline": True}, 410, "expired"),
        ({"cancelled": True}, 410, "cancelled"),
    ],
)
@pytest.mark.parametrize("body", [{"payload": 1}, {}, {"payload": 1, "x": 2}])
def test_a_token_that_is_used_up_says_why(anyone: Client, state: Any, status: int, kind: str, body: Any):
    response = anyone.post(f"resume/{HookFactory(**state).token}/", body)

    assert (response.status_code, slug(response)) == (status, kind)


def test_an_answer_that_does_not_fit_does_not_burn_the_token(anyone: Client):
    hook = HookFactory(schema="tests.api.forms:Strict")

    refused = resume(anyone, hook.token, {"grade": "x"})

    assert (refused.status_code, list(problem(refused)["errors"])) == (400, ["grade"])
    assert resume(anyone, hook.token, {"grade": 1}).status_code == 200


@pytest.mark.parametrize("method", ["get", "head", "options", "put", "delete"])
def test_only_post_does_something(anyone: Client, method: str):
    hook = HookFactory()

    response = getattr(anyone, method)(f"resume/{hook.token}/")

    assert response.status_code == 405
    assert not Event.objects.filter(type=Event.Type.HOOK_RECEIVED).exists()


@pytest.mark.parametrize("state", [{}, {"received": True}, {"past_deadline": True}, {"cancelled": True}])
def test_a_token_is_neither_answered_nor_logged(anyone: Client, caplog: pytest.LogCaptureFixture, state: Any):
    hook = HookFactory(**state)
    caplog.set_level(logging.DEBUG)

    for body in ({"payload": 1}, {}, [float("nan")]):
        response = anyone.post(f"resume/{hook.token}/", body)
        assert hook.token not in response.content.decode()
    anyone.get(f"resume/{hook.token}/")

    said = [record.getMessage() for record in caplog.records if record.name.startswith("django")]
    assert not [message for message in said if hook.token in message]


def test_a_token_is_not_logged_when_the_database_is_away(
    anyone: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def be_away(token: str) -> None:
        raise OperationalError("the server closed the connection")

    hook = HookFactory()
    monkeypatch.setattr("django_stephooks.api.answers.find_hook", be_away)

    response = resume(anyone, hook.token, 1)

    assert (response.status_code, slug(response)) == (500, "broken")
    assert "the server closed the connection" in caplog.text
    said = [record.getMessage() for record in caplog.records]
    assert not [message for message in said if hook.token in message]


def test_guessing_is_slowed_down(anyone: Client, settings: Any):
    settings.STEPHOOKS = {**settings.STEPHOOKS, "API_THROTTLES": {"stephooks-token": "2/hour"}}
    hook = HookFactory()

    found = [resume(anyone, "A" * 44).status_code for _ in range(3)]

    assert found == [404, 404, 429]
    assert resume(anyone, hook.token).status_code == 429
    cache.clear()
    assert find_hook(hook.token) == hook
    assert resume(anyone, hook.token).status_code == 200
