"""Every error is a problem document, also those that REST framework or Django found."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, UnreadablePostError
from rest_framework.exceptions import APIException
from rest_framework.test import APIRequestFactory, force_authenticate

from django_stephooks import exceptions
from django_stephooks.api import media, problems
from django_stephooks.api.answers import ResumeByToken
from django_stephooks.api.hooks import HookList
from django_stephooks.models import Hook
from tests.factories import HookFactory

from .conftest import ROOT, Client, problem, slug

pytestmark = pytest.mark.django_db


def raw(client: Client, body: bytes, hook: Hook | None = None, **options: Any) -> Any:
    hook = hook or HookFactory()
    options.setdefault("content_type", "application/json")
    return client.post(f"hooks/{hook.public_id}/resume/", body, **options)


@pytest.mark.parametrize(
    "address", ["", "nothing/", "hooks", "hooks/41/", "hooks/x/approve/", "resume//", "%00"]
)
@pytest.mark.parametrize("method", ["get", "post"])
def test_an_address_that_is_none(anyone: Client, address: str, method: str):
    response = getattr(anyone, method)(ROOT + address)

    assert (response.status_code, slug(response)) == (404, "not-found")


def test_a_method_that_an_address_does_not_take(reviewer: Client):
    response = reviewer.delete("hooks/")

    assert (response.status_code, slug(response)) == (405, "method-not-allowed")
    assert "GET" in response["Allow"]


def test_a_client_that_wants_no_json(reviewer: Client):
    response = reviewer.get("hooks/", headers={"Accept": "text/html"})

    assert (response.status_code, slug(response)) == (406, "not-acceptable")


def test_a_format_that_is_none(reviewer: Client):
    assert slug(reviewer.get("hooks/?format=yaml")) == "not-found"


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "x"],
)
def test_a_body_that_is_said_to_be_something_else(reviewer: Client, content_type: str):
    response = raw(reviewer, b"payload=1", content_type=content_type)

    assert (response.status_code, slug(response)) == (415, "unsupported-media-type")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff",
        b"\xef\xbb\xbf{}",
        '{"payload": 1}'.encode("utf-16"),
        b'{"payload": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"payload": ' + b"9" * 5_000 + b"}",
        b"{'payload': 1}",
    ],
)
def test_a_body_that_can_not_be_read(reviewer: Client, body: bytes):
    response = raw(reviewer, body)

    assert (response.status_code, slug(response)) == (400, "malformed")


@pytest.mark.parametrize(
    ("number", "path"),
    [
        ("NaN", "body.payload.rows[1].sum"),
        ("Infinity", "body.payload.rows[1].sum"),
        ("-Infinity", "body.payload.rows[1].sum"),
        ("1e999", "body.payload.rows[1].sum"),
    ],
)
def test_a_number_that_json_has_not_is_named_by_its_path(reviewer: Client, number: str, path: str):
    response = raw(reviewer, b'{"payload": {"rows": [1, {"sum": %s}]}}' % number.encode())

    assert (response.status_code, slug(response)) == (400, "invalid-payload")
    assert list(problem(response)["errors"]) == [path]


def test_what_is_nested_too_deep_to_be_stored_is_refused(reviewer: Client):
    response = raw(reviewer, b'{"payload": ' + b"[" * 101 + b"]" * 101 + b"}")

    assert (response.status_code, slug(response)) == (400, "invalid-payload")


def test_a_charset_of_the_client_s_own_does_not_matter(reviewer: Client):
    response = raw(reviewer, b'{"payload": 1}', content_type="application/json; charset=bz2")

    assert response.status_code == 200


# --- size ---


@pytest.fixture
def small(settings: Any) -> int:
    settings.STEPHOOKS = {**settings.STEPHOOKS, "MAX_PAYLOAD_BYTES": 1000}
    return media.max_body_bytes()


@pytest.mark.parametrize("content_type", ["application/json", "multipart/form-data; boundary=x"])
def test_a_body_that_is_too_large_is_not_even_read(
    reviewer: Client, anyone: Client, small: int, content_type: str, monkeypatch: pytest.MonkeyPatch
):
    def unread(*args: Any) -> None:
        raise AssertionError("The body was read.")

    hook = HookFactory()
    monkeypatch.setattr("django.core.handlers.wsgi.WSGIRequest.read", unread)
    monkeypatch.setattr("django.core.handlers.wsgi.WSGIRequest._load_post_and_files", unread)
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(reviewer.user)

    for response in (
        raw(strict, b"x" * (small + 1), hook, content_type=content_type),
        anyone.post(f"resume/{hook.token}/", b"x" * (small + 1), content_type=content_type),
    ):
        assert (response.status_code, slug(response)) == (413, "too-large")


def test_a_body_that_is_larger_than_its_header_says_is_cut_off(small: int):
    class Liar:
        """A server that hands out what came, whatever the header said."""

        def read(self, size: int) -> bytes:
            return b" " * size

    with pytest.raises(media.BodyTooLarge):
        media.StrictJSONParser().parse(Liar())


def test_a_payload_above_the_setting_is_refused_with_its_name(reviewer: Client, small: int):
    response = raw(reviewer, json.dumps({"payload": "x" * 1001}).encode())

    assert (response.status_code, slug(response)) == (400, "invalid-payload")
    assert "MAX_PAYLOAD_BYTES" in problem(response)["detail"]


def test_a_client_that_hangs_up(reviewer: Client, monkeypatch: pytest.MonkeyPatch):
    def hung_up(*args: Any) -> None:
        raise UnreadablePostError("gone")

    hook = HookFactory()
    monkeypatch.setattr("django.core.handlers.wsgi.WSGIRequest.read", hung_up)

    assert slug(raw(reviewer, b"{}", hook)) == "malformed"


@pytest.mark.parametrize("length", ["", "x", "-5"])
def test_a_length_that_is_none_is_left_to_the_server(length: str):
    hook = HookFactory()
    request = APIRequestFactory().post("/", {}, format="json", CONTENT_LENGTH=length)

    assert ResumeByToken.as_view()(request, token=hook.token).status_code == 400


def test_under_asgi_too(reviewer: Client):
    scope = {"type": "http", "method": "GET", "path": "/hooks/", "headers": [], "query_string": b""}
    request = ASGIRequest(scope, body_file=io.BytesIO())
    force_authenticate(request, reviewer.user)

    assert HookList.as_view()(request).status_code == 200


# --- what each error becomes ---


def test_every_error_of_ours_has_the_status_that_it_says():
    for name in exceptions.__dict__:
        error = getattr(exceptions, name)
        if isinstance(error, type) and issubclass(error, exceptions.StepHooksError):
            response = problems.handle(error(), {})
            assert response is not None
            assert response.status_code == response.data["status"] == error.status_code, name
            assert response.data["type"].removeprefix("urn:stephooks:") in problems.TITLES


@pytest.mark.parametrize(("error", "kind"), [(PermissionDenied(), "not-allowed"), (Http404(), "not-found")])
def test_django_s_own_errors_are_problems_too(error: Exception, kind: str):
    response = problems.handle(error, {})

    assert response is not None
    assert response.data["type"] == f"urn:stephooks:{kind}"


def test_an_error_that_nobody_expected_is_left_to_django():
    assert problems.handle(ZeroDivisionError(), {}) is None


def test_another_error_of_the_framework_keeps_its_status():
    class Teapot(APIException):
        status_code = 418

    response = problems.handle(Teapot("short and stout"), {})

    assert response is not None
    assert (response.status_code, response.data["detail"]) == (418, "short and stout")


def test_errors_below_errors_are_named_by_their_path():
    detail = {"a": {"b": ["x"], "non_field_errors": ["y"]}, "c": "z"}

    assert problems.by_field(detail) == {"a.b": ["x"], "a.__all__": ["y"], "c": ["z"]}


def test_a_password_that_is_none_is_nobody_s():
    response = Client().get("hooks/", headers={"Authorization": "Basic x"})

    assert slug(response) == "not-authenticated"


def test_who_is_not_known_is_told_how_to_say_who_they_are(monkeypatch: pytest.MonkeyPatch):
    from rest_framework.authentication import BasicAuthentication

    monkeypatch.setattr(HookList, "authentication_classes", (BasicAuthentication,))

    response = Client().get("hooks/")

    assert (response.status_code, slug(response)) == (401, "not-authenticated")
    assert response["WWW-Authenticate"].startswith("Basic ")
