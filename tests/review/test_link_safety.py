"""What keeps others out: forged forms, floods, huge bodies, framing; and links stay out of logs."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.db import OperationalError, connection
from django.test import Client

from django_stephooks.links import make_link_token
from django_stephooks.models import Hook
from tests.factories import HookFactory, UserFactory
from tests.review.visiting import DANA, Page, Visitor, again, path_of, text_of

pytestmark = pytest.mark.django_db


def filled(visitor: Visitor, path: str, **changed: str) -> dict[str, str]:
    return {**Page(visitor.open(path)).fields, "decision": "approve", **changed}


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://testserver.evil.example"},
        {"origin": "http://testserver:8000"},
        {"origin": "http://[broken"},
        {"referer": "https://evil.example/testserver"},
        {"origin": "https://evil.example", "referer": "http://testserver/"},
    ],
)
def test_form_that_another_site_sent_decides_nothing(visitor: Visitor, headers: dict[str, str]) -> None:
    hook = HookFactory()
    response = visitor.client.post(path_of(hook), filled(visitor, path_of(hook)), headers=headers)
    assert response.status_code == 403
    assert "Nothing was decided" in text_of(response)
    assert again(hook).status == Hook.Status.PENDING


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://testserver"},
        {"origin": "http://testserver:80"},
        # BASE_URL: a proxy ends TLS in front of us.
        {"origin": "https://testserver"},
        {"referer": "http://testserver/review/x"},
        {"origin": "https://desk.trusted.example"},
    ],
)
def test_form_of_our_own_page_decides(visitor: Visitor, settings: Any, headers: dict[str, str]) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["https://*.trusted.example"]
    hook = HookFactory()
    response = visitor.client.post(path_of(hook), filled(visitor, path_of(hook)), headers=headers)
    assert response.status_code == 200
    assert again(hook).status == Hook.Status.RECEIVED


@pytest.mark.parametrize("stamp", ["", "junk", "\x00", "of another link"])
def test_form_without_the_stamp_of_its_page_decides_nothing(visitor: Visitor, stamp: str) -> None:
    hook = HookFactory()
    if stamp == "of another link":
        stamp = Page(visitor.open(path_of(hook, "eve@example.com"))).fields["stamp"]
    fields = filled(visitor, path_of(hook), stamp=stamp, comment="forged words")
    response = visitor.client.post(path_of(hook), fields)
    assert response.status_code == 403
    assert "forged words" not in response.content.decode()
    assert again(hook).status == Hook.Status.PENDING
    # The page is there to choose on.
    assert visitor.press(response).status_code == 200


@pytest.fixture
def login_needed(configure: Any) -> None:
    configure(LINK_REQUIRES_LOGIN=True)


def test_link_that_needs_a_login_asks_for_it_and_leads_back(visitor: Visitor, login_needed: None) -> None:
    hook = HookFactory(title="A secret plan?")
    response = visitor.open(path_of(hook))
    assert response.status_code == 302
    assert response["Location"].startswith("/accounts/login/?next=/review/")
    assert response["Cache-Control"] == "no-store"
    posted = visitor.client.post(path_of(hook), {"decision": "approve", "comment": "My words."})
    assert posted.status_code == 403
    assert Page(posted).fields["typed"].strip() == "My words."
    assert b"A secret plan?" not in posted.content
    assert again(hook).status == Hook.Status.PENDING


def test_with_a_login_the_answer_is_the_users(visitor: Visitor, login_needed: None) -> None:
    dana = UserFactory(username="dana", email=DANA, reviewer=True)
    visitor.client.force_login(dana)
    hook = HookFactory()
    assert visitor.decide(path_of(hook)).status_code == 200
    assert (again(hook).answered_by, hook.answered_by_label, hook.channel) == (dana, "dana", "link")
    assert hook.payload["reviewer"] == "dana"


def test_login_is_not_enough_without_the_permission(visitor: Visitor, login_needed: None) -> None:
    visitor.client.force_login(UserFactory(email=DANA))
    hook = HookFactory()
    response = visitor.open(path_of(hook))
    assert response.status_code == 403
    assert "permission" in text_of(response)


def test_login_is_not_enough_if_the_link_is_refused(visitor: Visitor, login_needed: None) -> None:
    UserFactory(email=DANA, is_active=False)
    visitor.client.force_login(UserFactory(reviewer=True))
    assert visitor.open(path_of(HookFactory())).status_code == 403


def test_form_that_a_finder_of_the_link_made_does_not_use_anothers_session(
    visitor: Visitor, login_needed: None
) -> None:
    hook = HookFactory()
    finder = Visitor(Client())
    finder.client.force_login(UserFactory(reviewer=True))
    fields = filled(finder, path_of(hook))
    visitor.client.force_login(UserFactory(reviewer=True))
    # Sent by a browser that says nothing of where the form came from.
    assert visitor.client.post(path_of(hook), fields).status_code == 403
    assert again(hook).status == Hook.Status.PENDING


def test_too_many_requests_are_told_to_wait(visitor: Visitor, configure: Any) -> None:
    configure(LINK_THROTTLE="3/h")
    path = path_of(HookFactory())
    assert [visitor.open(path).status_code for _ in range(4)] == [200, 200, 200, 429]
    response = visitor.open(path)
    assert "Wait a little" in text_of(response)
    assert 0 < int(response["Retry-After"]) <= 3600


def test_throttled_answer_decides_nothing_and_counts_later(visitor: Visitor, configure: Any) -> None:
    configure(LINK_THROTTLE="1/h")
    hook = HookFactory()
    page = visitor.open(path_of(hook))
    assert visitor.press(page).status_code == 429
    assert again(hook).status == Hook.Status.PENDING
    cache.clear()
    assert visitor.press(page).status_code == 200


def test_whoever_tries_out_links_is_stopped_and_locks_out_nobody(visitor: Visitor, configure: Any) -> None:
    configure(LINK_THROTTLE="3/h")
    tries = [visitor.open(f"/review/{'a' * 60}{number}").status_code for number in range(5)]
    assert tries == [404, 404, 404, 429, 429]
    assert visitor.open(path_of(HookFactory())).status_code == 200


def test_each_address_on_the_network_has_its_own_count(visitor: Visitor, configure: Any) -> None:
    configure(LINK_THROTTLE="1/h")
    path = path_of(HookFactory())
    assert visitor.open(path).status_code == 200
    assert visitor.open(path).status_code == 429
    assert visitor.client.get(path, REMOTE_ADDR="192.0.2.7").status_code == 200


def test_a_broken_cache_keeps_nobody_from_answering(visitor: Visitor, monkeypatch: Any) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise ConnectionError("The cache is away.")

    monkeypatch.setattr(type(cache._connections[cache._alias]), "add", fail)  # type: ignore[attr-defined]
    assert visitor.decide(path_of(HookFactory())).status_code == 200


def test_huge_body_is_a_413_before_it_is_read(visitor: Visitor) -> None:
    hook = HookFactory()
    response = visitor.client.post(path_of(hook), {"decision": "approve", "comment": "x" * 50_000_000})
    assert response.status_code == 413
    assert "Nothing was stored" in text_of(response)
    assert again(hook).status == Hook.Status.PENDING


def test_body_that_django_finds_too_large_is_a_413_too(visitor: Visitor, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    hook = HookFactory()
    response = visitor.client.post(
        path_of(hook), f"comment={'x' * 500}", content_type="application/x-www-form-urlencoded"
    )
    assert response.status_code == 413


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("a&" * 2000, "application/x-www-form-urlencoded"),
        ("junk", "multipart/form-data"),
        ("junk", "multipart/form-data; boundary=x"),
        ("decision=approve", "application/x-www-form-urlencoded; charset=klingon"),
        ('{"approved": true}', "application/json"),
        ("%ED%A0%80=%FF", "application/x-www-form-urlencoded"),
        ("", "text/plain"),
    ],
)
def test_body_that_is_no_form_is_never_a_500(visitor: Visitor, body: str, content_type: str) -> None:
    hook = HookFactory()
    response = visitor.client.generic("POST", path_of(hook), body, content_type=content_type)
    assert response.status_code in (400, 403)
    assert again(hook).status == Hook.Status.PENDING


def test_body_of_unknown_length_is_not_read(visitor: Visitor) -> None:
    hook = HookFactory()
    response = visitor.client.post(path_of(hook), {"decision": "approve"}, CONTENT_LENGTH="")
    assert response.status_code == 400


@pytest.mark.parametrize("path", ["used", "junk", "throttled", "invalid", "not allowed", "put", "forged"])
def test_links_are_in_no_log(
    visitor: Visitor, configure: Any, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    hook = HookFactory(received=True) if path == "used" else HookFactory()
    token = make_link_token(hook, DANA)
    caplog.set_level(logging.DEBUG)
    if path == "throttled":
        configure(LINK_THROTTLE="1/h")
        visitor.open(path_of(hook))
    if path == "not allowed":
        UserFactory(email=DANA, is_active=False)
    if path == "invalid":
        response = visitor.decide(path_of(hook), "reject")
    elif path == "put":
        response = visitor.client.put(path_of(hook))
    elif path == "forged":
        response = visitor.client.post(path_of(hook), {}, headers={"origin": "null"})
    else:
        response = visitor.open(path_of(hook) + ("x" if path == "junk" else ""))
    assert response.status_code >= 400
    assert token not in caplog.text
    assert hook.token not in caplog.text


def test_link_is_in_no_log_when_the_database_is_away(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hook = HookFactory()
    form = filled(visitor, path_of(hook))

    def be_away(*args: Any) -> None:
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr("django_stephooks.review.views.open_link", be_away)
    for response in (visitor.open(path_of(hook)), visitor.client.post(path_of(hook), form)):
        assert response.status_code == 503
        assert "Open the link again" in text_of(response)
        assert response["Cache-Control"] == "no-store"
    assert "the server closed the connection" in caplog.text
    assert make_link_token(hook, DANA) not in caplog.text


def test_request_that_broke_off_is_undone_if_requests_are_atomic(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin_and_break(*args: Any) -> None:
        UserFactory(username="half-made")
        raise RuntimeError

    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    monkeypatch.setattr("django_stephooks.review.views.open_link", begin_and_break)
    assert visitor.open(path_of(HookFactory())).status_code == 503
    assert not get_user_model().objects.filter(username="half-made").exists()


def test_number_of_queries_does_not_grow_with_the_context(
    visitor: Visitor, django_assert_max_num_queries: Any
) -> None:
    for size in (1, 50):
        hook = HookFactory(context={f"key {number}": number for number in range(size)})
        with django_assert_max_num_queries(4):
            visitor.open(path_of(hook))
