"""How many requests are taken from one user or address."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.core.cache import cache
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from rest_framework.settings import api_settings

from django_stephooks.api.throttles import AnswerThrottle, ReadThrottle, ScopeThrottle, TokenThrottle
from tests.factories import HookFactory

from .conftest import Client, client_of, problem, slug

pytestmark = pytest.mark.django_db


@pytest.fixture
def limit(settings: Any) -> Any:
    def set_rates(**rates: Any) -> None:
        named = {f"stephooks-{scope}": rate for scope, rate in rates.items()}
        settings.STEPHOOKS = {**settings.STEPHOOKS, "API_THROTTLES": named}

    return set_rates


@pytest.mark.parametrize("throttle", [ReadThrottle, AnswerThrottle, TokenThrottle])
def test_there_is_a_limit_although_the_project_sets_none(throttle: type[ScopeThrottle]):
    count, seconds = throttle().parse_rate(throttle().rate)

    assert count >= 60
    assert seconds == 60


def test_too_many_requests_are_told_when_to_come_again(reviewer: Client, limit: Any):
    limit(read="2/min")

    found = [reviewer.get("hooks/").status_code for _ in range(2)]
    refused = reviewer.get("hooks/")

    assert (found, refused.status_code, slug(refused)) == ([200, 200], 429, "throttled")
    assert 1 <= int(refused["Retry-After"]) <= 60
    assert "second" in problem(refused)["detail"]


def test_reading_uses_up_no_answers_and_others_requests_none_of_mine(reviewer: Client, limit: Any):
    limit(read="1/min", answer="1/min")
    hook = HookFactory()

    assert reviewer.get("hooks/").status_code == 200
    assert reviewer.post(f"hooks/{hook.public_id}/approve/", {}).status_code == 200
    assert reviewer.post(f"hooks/{hook.public_id}/approve/", {}).status_code == 429
    assert client_of("view_hook").get("hooks/").status_code == 200


def test_a_limit_can_be_taken_away(reviewer: Client, limit: Any):
    limit(read=None)

    assert {reviewer.get("hooks/").status_code for _ in range(3)} == {200}
    assert ReadThrottle().rate is None


@pytest.mark.parametrize("rate", ["many", "10", "x/min", "10/fortnight", "10/", "0/min", 10])
def test_a_rate_that_is_none_says_so(limit: Any, rate: Any):
    limit(read=rate)

    with pytest.raises(ImproperlyConfigured, match=r"API_THROTTLES, stephooks-read: .* is not a rate"):
        ReadThrottle()


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ({"stephooks-read": "often"}, "stephooks-read: 'often' is not a rate"),
        ({"stephooks-answers": "1/min"}, "no scope 'stephooks-answers'"),
        ("60/min", "'60/min' is no dictionary"),
    ],
)
def test_the_system_check_says_what_is_wrong_with_the_rates(settings: Any, value: Any, wrong: str):
    settings.STEPHOOKS = {**settings.STEPHOOKS, "API_THROTTLES": value}

    (message,) = (found for found in run_checks(tags=["stephooks"]) if "API_THROTTLES" in found.msg)

    assert message.id == "stephooks.E002"
    assert wrong in message.msg


def test_rates_that_can_be_used_are_no_matter_for_the_system_check(limit: Any):
    limit(read="5/s", token=None)

    assert not [found for found in run_checks(tags=["stephooks"]) if "API_THROTTLES" in found.msg]


def test_a_header_that_anybody_can_write_does_not_help(anyone: Client, limit: Any):
    limit(token="1/min")

    found = [
        anyone.post("resume/x/", {}, headers={"X-Forwarded-For": f"10.0.0.{n}"}).status_code for n in range(2)
    ]

    assert found == [404, 429]


def test_behind_a_proxy_each_address_counts_for_itself(
    anyone: Client, limit: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(api_settings, "NUM_PROXIES", 1)
    limit(token="1/min")

    def send(address: str) -> int:
        status: int = anyone.post("resume/x/", {}, headers={"X-Forwarded-For": address}).status_code
        return status

    assert [send("a, 10.0.0.1"), send("b, 10.0.0.1"), send("a, 10.0.0.2")] == [404, 429, 404]
    assert send("é " + "x" * 5000) == 404  # no key of a cache


def test_an_answer_is_worth_more_than_a_cache(
    reviewer: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def down(*args: Any, **kwargs: Any) -> None:
        raise ConnectionError("The cache is down.")

    monkeypatch.setattr(type(cache._connections["default"]), "get", down)  # type: ignore[attr-defined]
    with caplog.at_level(logging.ERROR, "django_stephooks"):
        response = reviewer.post(f"hooks/{HookFactory().public_id}/approve/", {})

    assert response.status_code == 200
    assert "not counted" in caplog.text
