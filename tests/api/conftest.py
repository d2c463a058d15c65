"""Clients of the API: the least privileged reviewer, and others who may do this or that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from rest_framework.test import APIClient

from tests.factories import UserFactory
from tests.services import bells

ROOT = "/api/stephooks/"


@pytest.fixture(autouse=True)
def nothing_counted_yet() -> Iterator[None]:
    """Throttles count in the cache, which outlives a test."""
    cache.clear()
    yield
    cache.clear()


@pytest.fixture(autouse=True)
def no_worker(settings: Any) -> None:
    """Answers are stored, and nobody goes on with the run."""
    settings.STEPHOOKS = {"RUNTIME": f"{bells.__name__}.NotedBells"}
    bells.rung.clear()


def client_of(*permissions: str, **user: Any) -> Client:
    """A client, logged in as a user who has these permissions of ours and nothing else."""
    client = Client()
    client.user = UserFactory(permissions=list(permissions), **user)
    client.force_login(client.user)
    return client


class Client(APIClient):
    """Talks JSON to addresses below the API's root."""

    user: Any = None

    def generic(self, method: str, path: str, *args: Any, **kwargs: Any) -> Any:
        # As it is: the address of a next page.
        is_whole = path.startswith(("/", "http://"))
        return super().generic(method, path if is_whole else ROOT + path, *args, **kwargs)

    def post(self, path: str, data: Any = None, **options: Any) -> Any:
        if data is not None and "content_type" not in options:
            # Python's own encoder, which also writes what is not JSON.
            data, options["content_type"] = json.dumps(data), "application/json"
        return super().post(path, data, **options)


@pytest.fixture
def reviewer(db: None) -> Client:
    """May see hooks and answer them: what an editor has."""
    return client_of("view_hook", "review_hook")


@pytest.fixture
def operator(db: None) -> Client:
    """May see runs, start, cancel and retry them."""
    return client_of("view_run", "start_run", "cancel_run", "retry_run")


@pytest.fixture
def anyone(db: None) -> Client:
    """Nobody in particular: another system, with a token at best."""
    return Client()


def problem(response: Any) -> dict[str, Any]:
    """A response as the problem document that it must be."""
    assert response["Content-Type"] == "application/problem+json", response.content
    assert response["Cache-Control"] == "private, no-store"
    data: dict[str, Any] = response.json()
    assert data["type"].startswith("urn:stephooks:")
    assert data["title"]
    assert data["status"] == response.status_code
    return data


def slug(response: Any) -> str:
    return problem(response)["type"].removeprefix("urn:stephooks:")
