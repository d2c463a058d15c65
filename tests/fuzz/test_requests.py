"""Any body, header, query and method, at each address: no 500, and an answer is taken whole or not at all."""

from __future__ import annotations

import gzip
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.test.client import BOUNDARY, MULTIPART_CONTENT, encode_multipart
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from django_stephooks import codec
from django_stephooks.models import Event, Hook, Run
from tests.admin import pages
from tests.factories import HookFactory, RunFactory, UserFactory
from tests.review.visiting import Page, path_of

from . import material
from .material import thrown

pytestmark = pytest.mark.django_db

CONTENT_TYPES = [
    "application/json",
    "application/json; charset=utf-16",
    "application/json; charset=nothing",
    "application/json; charset=\xff",
    "application/x-www-form-urlencoded",
    "application/x-www-form-urlencoded; charset=utf-7",
    MULTIPART_CONTENT,
    "multipart/form-data",
    'multipart/form-data; boundary="',
    "multipart/form-data; boundary=" + "x" * 500,
    "text/plain",
    "",
    "/",
    "\x00",
]
SCHEMAS = ["", "tests.api.forms:Strict", "tests.api.forms:GradeForm", "gone:Gone"]


def bodies(*fields: str) -> Any:
    names = st.sampled_from(fields) | material.any_text
    forms = st.dictionaries(
        names, material.storable_text | st.sampled_from(["approve", "true", "9" * 5000]), max_size=4
    )
    forms.map(lambda form: encode_multipart(BOUNDARY, form))
    whole = st.one_of(
        st.binary(max_size=60),
        material.json_texts.map(lambda text: text.encode("utf-8", "surrogatepass")),
        st.dictionaries(names, material.json_values, max_size=3).map(
            lambda body: material.as_json(body).encode()
        ),
        material.json_texts.map(lambda text: text.encode("utf-16", "surrogatepass")),
        forms.map(
            lambda form: urlencode({k.encode("utf-8", "surrogatepass"): v for k, v in form.items()}).encode()
        ),
        st.dictionaries(st.sampled_from(fields), material.storable_text, max_size=3).map(
            lambda form: encode_multipart(BOUNDARY, form)
        ),
        st.just(encode_multipart(BOUNDARY, {"comment": "x"}) * 3),
    )
    cut = st.tuples(whole, st.integers(0, 80)).map(lambda one: one[0][: len(one[0]) - one[1]])
    return st.one_of(whole, cut, whole.map(gzip.compress))


HEADERS = st.dictionaries(
    st.sampled_from(
        [
            "content-encoding",
            "accept",
            "accept-language",
            "idempotency-key",
            "x-http-method-override",
            "origin",
            "referer",
            "x-forwarded-host",
            "x-forwarded-for",
            "cookie",
            "range",
        ]
    ),
    st.sampled_from(
        [
            "gzip",
            "*/*",
            "application/json",
            "PUT",
            "null",
            "chunked",
            "-1",
            "99",
            "evil.example",
            "http://[",
            "\x00",
            "ä",
            "x" * 300,
        ]
    )
    | st.text(st.characters(min_codepoint=1, max_codepoint=255), max_size=10),
    max_size=3,
)


def a_browser(**options: Any) -> Client:
    client = Client(**options)
    client.force_login(UserFactory(superuser=True))
    return client


def is_whole(hook: Hook) -> bool:
    """Unanswered, or answered with all that belongs to it."""
    hook = Hook.objects.get(pk=hook.pk)
    told = Event.objects.filter(run=hook.run_id, type=Event.Type.HOOK_RECEIVED).count()
    if hook.status == Hook.Status.PENDING:
        return (hook.payload, hook.settled_at, told) == (None, None, 0)
    assert hook.status in (Hook.Status.RECEIVED, Hook.Status.CANCELLED)
    codec.dumps_plain(hook.payload)
    return hook.settled_at is not None and told == (hook.status == Hook.Status.RECEIVED)


@pytest.mark.parametrize(
    "page", ["approve", "reject", "resume", "resume-by-token", "cancel", "retry", "start"]
)
@given(
    body=bodies("payload", "comment", "seen", "reason", "arguments", "key"),
    content_type=st.sampled_from(CONTENT_TYPES),
    headers=HEADERS,
    schema=st.sampled_from(SCHEMAS),
    checks=st.booleans(),
)
@thrown(0.2)
def test_the_api_takes_it_or_says_what_is_wrong(
    page: str, body: bytes, content_type: str, headers: dict[str, str], schema: str, checks: bool
) -> None:
    hook = HookFactory(schema=schema)
    argument = {
        "resume-by-token": hook.token,
        "cancel": hook.run.public_id,
        "retry": RunFactory(failed=True).public_id,
        "start": "tests.app.workflows.publish",
    }.get(page, hook.public_id)

    browser = a_browser(enforce_csrf_checks=checks, raise_request_exception=schema != "gone:Gone")
    response = browser.generic(
        "POST", reverse(f"stephooks-api:{page}", args=[argument]), body, content_type, headers=headers
    )

    # A schema whose class is gone is the site's own fault.
    assert response.status_code < 500 or schema == "gone:Gone"
    expected = "application/json" if response.status_code < 300 else "application/problem+json"
    assert response["Content-Type"] == expected
    response.json()
    assert is_whole(hook)


@pytest.mark.parametrize("door", ["link", "answer", "bulk", "list", "links", "cancel", "retry"])
@given(
    body=bodies(
        "decision",
        "comment",
        "stamp",
        "seen",
        "selection",
        "action",
        "_selected_action",
        "select_across",
        "reason",
        "grade",
    ),
    content_type=st.sampled_from([*CONTENT_TYPES, MULTIPART_CONTENT, "application/x-www-form-urlencoded"]),
    headers=HEADERS,
    schema=st.sampled_from(SCHEMAS[:3]),
)
@thrown(0.2)
def test_a_page_takes_it_or_says_what_is_wrong(
    door: str, body: bytes, content_type: str, headers: dict[str, str], schema: str
) -> None:
    hook = HookFactory(schema=schema)
    address = {
        "link": path_of(hook),
        "answer": pages.address(hook, "answer"),
        "bulk": f"{pages.HOOKS}bulk/",
        "list": pages.HOOKS,
        "links": pages.address(hook, "links"),
        "cancel": pages.address(hook.run, "cancel"),
        "retry": pages.address(RunFactory(failed=True), "retry"),
    }[door]

    response = a_browser().generic("POST", address, body, content_type, headers=headers)

    assert response.status_code < 500
    assert is_whole(hook)


@pytest.mark.parametrize("door", ["link", "answer"])
@given(
    typed=st.dictionaries(
        st.sampled_from(
            ["comment", "decision", "grade", "answer", "reviewer", "approved", "seen", "stamp", "next"]
        ),
        material.storable_text
        | st.sampled_from(["approve", "reject", "\x00", "9" * 5000, "[" * 5000, "NaN", '{"a": 1}', "\r\n"]),
        max_size=4,
    ),
    schema=st.sampled_from(SCHEMAS[:3]),
)
@thrown(0.2)
def test_whatever_is_typed_into_the_form_of_a_page(door: str, typed: dict[str, str], schema: str) -> None:
    hook = HookFactory(schema=schema)
    browser = a_browser()
    address = path_of(hook) if door == "link" else pages.address(hook)
    fields = Page(browser.get(address)).fields

    response = browser.post(
        address if door == "link" else pages.address(hook, "answer"),
        {**fields, "decision": "approve", **typed},
    )

    assert response.status_code < 500
    assert is_whole(hook)
    answered = Hook.objects.get(pk=hook.pk)
    if answered.status == Hook.Status.RECEIVED and isinstance(answered.payload, dict):
        # Who answered is not what was typed.
        assert answered.payload.get("reviewer") != typed.get("reviewer", object())
    assert browser.get(address).status_code in (200, 410)


def lookups() -> Any:
    columns = st.sampled_from(
        [
            *(field.name for model in (Hook, Run) for field in model._meta.get_fields()),
            *(
                "run__started_by__password",
                "answered_by__password",
                "started_by__email",
                "run__arguments",
                "events__data",
                "pk",
                "id",
            ),
        ]
    )
    ways = st.sampled_from(
        ["", "__startswith", "__contains", "__exact", "__isnull", "__gte", "__in", "__regex", "__date"]
    )
    own = st.sampled_from(
        [
            "status",
            "awaiting",
            "due",
            "run__workflow",
            "name",
            "workflow",
            "kind",
            "q",
            "o",
            "p",
            "all",
            "e",
            "_facets",
            "_popup",
            "_to_field",
            "_changelist_filters",
        ]
    )
    values = material.storable_text | st.sampled_from(
        [
            "\x00",
            "-1",
            "1.2.-3",
            "9" * 30,
            "9" * 5000,
            "me",
            "all",
            "waiting",
            "received",
            "x" * 2000,
            "1970-01-01",
            "True",
            "0,1",
            "(",
            "pbkdf2",
        ]
    )
    return st.dictionaries(
        st.builds(str.__add__, columns, ways) | own | material.storable_text, values, max_size=3
    )


@pytest.mark.parametrize("rows", ["hook", "run"])
@given(query=lookups())
@thrown(0.4)
def test_whatever_a_list_is_asked_for(rows: str, query: dict[str, str]) -> None:
    if not Hook.objects.exists():
        HookFactory()
    response = a_browser().get(reverse(f"admin:django_stephooks_{rows}_changelist"), query)
    assert response.status_code < 500


@pytest.mark.parametrize(
    "query", [{"name": "a\x00"}, {"status": "\x00"}, {"run__workflow": "\x00"}, {"a\x00": ""}]
)
def test_nul_in_the_address_of_a_list_is_a_bad_request(query: dict[str, str]) -> None:
    """Of the databases, only one would find it bad."""
    assert a_browser().get(pages.HOOKS, query).status_code == 400


@pytest.mark.parametrize("selected", ["a", "1.5", "", "\x00", "9" * 30, "1e3", "\u0663"])
@pytest.mark.parametrize("across", ["0", "1"])
def test_selected_rows_that_are_none_are_a_bad_request(selected: str, across: str) -> None:
    chosen = {"action": "approve_selected", "_selected_action": [selected], "select_across": across}
    assert a_browser().post(pages.HOOKS, chosen).status_code == 400


@pytest.mark.parametrize("page", ["hooks", "runs", "events"])
@given(
    query=st.dictionaries(
        st.sampled_from(
            [
                "cursor",
                "page_size",
                "status",
                "workflow",
                "name",
                "run",
                "due",
                "awaiting",
                "format",
                "ordering",
            ]
        )
        | material.storable_text,
        material.storable_text
        | st.sampled_from(["\x00", "-1", "9" * 30, "9" * 5000, "me", "pending", "x" * 2000]),
        max_size=3,
    )
)
@thrown(0.4)
def test_whatever_the_api_is_asked_for(page: str, query: dict[str, str]) -> None:
    hook = Hook.objects.first() or HookFactory()
    arguments = [hook.run.public_id] if page == "events" else []
    response = a_browser().get(reverse(f"stephooks-api:{page}", args=arguments), query)
    assert response.status_code in (200, 400, 404)


@pytest.mark.parametrize("door", ["link", "answer", "change", "api", "api-token", "api-list", "run"])
@given(
    method=st.sampled_from(
        ["GET", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "PROPFIND", "post", "FOO"]
    )
)
@thrown(0.2)
def test_only_a_post_decides_whatever_a_header_says(door: str, method: str) -> None:
    hook = HookFactory()
    address = {
        "link": path_of(hook),
        "answer": pages.address(hook, "answer"),
        "change": pages.address(hook),
        "api": reverse("stephooks-api:approve", args=[hook.public_id]),
        "api-token": reverse("stephooks-api:resume-by-token", args=[hook.token]),
        "api-list": reverse("stephooks-api:hooks"),
        "run": reverse("stephooks-api:cancel", args=[hook.run.public_id]),
    }[door]
    response = a_browser().generic(
        method,
        f"{address}?_method=POST&decision=approve",
        b"_method=POST&decision=approve&comment=x",
        content_type="application/x-www-form-urlencoded",
        headers={"x-http-method-override": "POST", "x-method-override": "POST"},
    )
    assert response.status_code < 500
    assert Hook.objects.get(pk=hook.pk).status == Hook.Status.PENDING
