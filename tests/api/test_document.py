"""The OpenAPI document: the committed one is the one that the code makes, and the code keeps to it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
import yaml
from django.core.management import call_command
from drf_spectacular.management.commands.spectacular import Command
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from django_stephooks.api import problems
from django_stephooks.conf import DEFAULTS
from django_stephooks.streaming import stream_token
from tests.factories import HookFactory, RunFactory, UserFactory

from .conftest import ROOT, Client

REPOSITORY = Path(__file__).resolve().parents[2]
COMMITTED = REPOSITORY / "docs" / "reference" / "openapi.yaml"
DOCUMENT = yaml.safe_load(COMMITTED.read_text())
OPERATIONS = [
    pytest.param(path, method, operation, id=operation["operationId"])
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]


def test_the_committed_document_is_what_the_code_makes(tmp_path: Path):
    made = tmp_path / "openapi.yaml"

    call_command(
        Command(),
        urlconf="django_stephooks.api.urls",
        custom_settings="django_stephooks.api.schema.SETTINGS",
        validate=True,
        fail_on_warn=True,
        file=str(made),
    )

    assert made.read_text() == COMMITTED.read_text(), (
        "Write it anew: copy the command from the docstring of django_stephooks/api/schema.py "
        "and add --file docs/reference/openapi.yaml."
    )


def test_a_site_that_includes_the_api_has_it_in_its_document_without_a_warning(tmp_path: Path):
    call_command(Command(), validate=True, fail_on_warn=True, file=str(tmp_path / "site.yaml"))

    paths = yaml.safe_load((tmp_path / "site.yaml").read_text())["paths"]
    assert f"{ROOT}resume/{{token}}/" in paths


def test_the_reference_lists_every_type_of_problem():
    page = (COMMITTED.parent / "api.md").read_text()

    assert set(re.findall(r"`urn:stephooks:([a-z-]+)`", page)) == set(problems.TITLES)


def test_every_address_is_in_the_document():
    from django_stephooks.api.urls import urlpatterns

    assert len(DOCUMENT["paths"]) == len(urlpatterns) - 1  # but for the one for all others


def without(package: str, code: str) -> None:
    """Run the code in a process where the package is not installed."""
    script = f"""
import os, sys
sys.modules[{package!r}] = None
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
from django.conf import settings
settings.INSTALLED_APPS.remove("rest_framework")
import django
django.setup()
{code}
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_api_works_without_drf_spectacular():
    without(
        "drf_spectacular",
        "from django.test import Client\n"
        "response = Client().get('/api/stephooks/nothing/')\n"
        "assert response.json()['type'] == 'urn:stephooks:not-found'\n",
    )


def test_everything_else_works_without_rest_framework():
    without(
        "rest_framework",
        "settings.ROOT_URLCONF = 'django.contrib.auth.urls'\n"
        "import importlib, pkgutil, django_stephooks\n"
        "from django.core.checks import run_checks\n"
        "for module in pkgutil.walk_packages(django_stephooks.__path__, 'django_stephooks.',\n"
        "                                    onerror=lambda name: None):\n"
        "    if not module.name.startswith('django_stephooks.api'):\n"
        "        importlib.import_module(module.name)\n"
        "assert not run_checks(tags=['stephooks'])\n",
    )


# --- whatever is sent ---

TEXT = st.text(st.characters(), max_size=20)
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**700, -(2**64), "\x00", "\ud800", "$t", ""])
    | st.floats()
    | TEXT,
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(TEXT | st.just("$t"), children, max_size=3)
    ),
    max_leaves=8,
)
HEADER = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=20)
# What a parameter may well be, so that not every request ends at its first check.
LIKELY: dict[str, list[Any]] = {
    "comment": ["Fine."],
    "reason": ["Spiked."],
    "arguments": [{}, {"title": "x"}],
    "key": ["k"],
    "payload": [{"grade": 1}],
    "name": ["tests.app.workflows.publish"],
    "after": ["0-1", "0-0.end"],
}


def nullable(node: Any) -> Any:
    """OpenAPI 3.0's way to say "or null" as JSON Schema's."""
    if isinstance(node, list):
        return [nullable(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {name: nullable(item) for name, item in node.items()}
    return {"anyOf": [node, {"type": "null"}]} if node.pop("nullable", False) else node


SCHEMAS = nullable(DOCUMENT["components"])


def schema_of(reference: str) -> dict[str, Any]:
    found: dict[str, Any] = DOCUMENT["components"]["schemas"][reference.rpartition("/")[2]]
    return found


@st.composite
def requests(draw: Any, path: str, method: str, operation: dict[str, Any]) -> dict[str, Any]:
    query, headers = {}, {}
    for parameter in operation.get("parameters", []):
        name, schema = parameter["name"], parameter["schema"]
        if parameter["in"] == "path" or draw(st.booleans()):
            continue
        if parameter["in"] == "header":
            headers[name] = draw(HEADER)
        else:
            likely = schema.get("enum") or LIKELY.get(name) or ["1", str(uuid.uuid4())]
            query[name] = draw(st.sampled_from(likely) | st.text(st.characters(codec="utf-8"), max_size=20))
    body = None
    if method == "post":
        schema = schema_of(operation["requestBody"]["content"]["application/json"]["schema"]["$ref"])
        fields = {
            name: st.sampled_from(LIKELY[name]) | JUNK if name in LIKELY else JUNK
            for name in schema["properties"]
        }
        as_json = st.fixed_dictionaries({}, optional=fields) | JUNK
        body = draw(as_json.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=50))
    return {
        "place": draw(st.sampled_from(["there", "there", "there", "other", "junk"])),
        "junk": draw(st.binary(max_size=30)),
        "query": query,
        "headers": headers,
        "body": body,
        "content_type": draw(st.sampled_from(["application/json"] * 4 + ["text/plain"])),
        "schema": draw(st.sampled_from(["", "tests.api.forms:Strict", "tests.api.forms:GradeForm"])),
        "state": draw(st.sampled_from([{}, {}, {"received": True}, {"expired": True}])),
    }


def address(path: str, request: dict[str, Any]) -> str:
    hook = HookFactory(schema=request["schema"], answer={"grade": 1}, **request["state"])
    run = RunFactory(failed=True)
    real = {
        "public_id": run.public_id if path.startswith("/runs/") else hook.public_id,
        "token": stream_token(run) if path.startswith("/stream/") else hook.token,
        "name": "tests.app.workflows.publish",
    }
    other = {"public_id": uuid.uuid4(), "token": "A" * 44, "name": "nothing"}
    if request["place"] == "junk":
        filled = path.format_map(dict.fromkeys(real, quote(request["junk"], safe="")))
    else:
        filled = path.format_map(real if request["place"] == "there" else other)
    return f"{ROOT}{filled.removeprefix('/')}?{urlencode(request['query'])}"


@pytest.mark.django_db
@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_whatever_is_sent_gets_a_reply_that_the_document_tells_of(
    path: str, method: str, operation: dict[str, Any], settings: Any
):
    settings.STEPHOOKS = {
        **settings.STEPHOOKS,
        "API_THROTTLES": dict.fromkeys(DEFAULTS["API_THROTTLES"]),
    }
    client = Client()
    client.force_login(UserFactory(superuser=True))

    @given(request=requests(path, method, operation))
    @hypothesis_settings(
        max_examples=max(20, hypothesis_settings().max_examples // 5),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
    def send(request: dict[str, Any]) -> None:
        response = client.generic(
            method.upper(),
            address(path, request),
            request["body"] or b"",
            content_type=request["content_type"],
            headers=request["headers"],
        )

        told = operation["responses"]
        # An address that is none, as junk in it makes, is no operation's.
        if request["place"] == "junk" and response.status_code == 404:
            return
        assert str(response.status_code) in told, response.getvalue()
        if response.status_code == 204:
            assert "content" not in told["204"]
            return
        content = told[str(response.status_code)]["content"]
        (media_type,) = content
        assert response["Content-Type"] == media_type
        if media_type == "text/event-stream":
            assert response.getvalue().startswith(b"retry: ")
            return
        schema = {"components": SCHEMAS, **content[media_type]["schema"]}
        Draft202012Validator(schema).validate(response.json())

    send()
