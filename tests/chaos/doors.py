"""The doors through which answers are given, each used as its people use it, whatever it is on fire.

`answer` notes in the diary what was offered and how it was received:

    won         taken: this is the answer that was given first
    lost        somebody else's stands
    expired, cancelled   it came too late
    failed      the server answered with an error of its own (5xx)
    unknown     the connection broke: nobody can tell
"""

from __future__ import annotations

import base64
import http.client
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.db import DatabaseError, close_old_connections
from django.urls import reverse

from demo_project.browser import Form, Page
from django_stephooks import (
    HookAlreadyReceivedError,
    HookCancelledError,
    HookExpiredError,
    resume_hook,
)
from django_stephooks.links import make_link_token
from django_stephooks.models import Hook

from .diary import diary, note
from .marks import SECRET

TIMEOUT = 15
PROBLEMS = {
    "urn:stephooks:already-answered": "lost",
    "urn:stephooks:expired": "expired",
    "urn:stephooks:cancelled": "cancelled",
}
# What the pages say to whoever comes too late.
SAID = (
    (re.compile(r"Already (approved|rejected|answered)"), "lost"),
    (re.compile(r"The deadline passed"), "expired"),
    (re.compile(r"no longer asked"), "cancelled"),
)


class Unknown(Exception):
    """Nobody can tell what became of a request."""


class Site:
    """The site as its visitors see it. `user` may answer, and see, every question."""

    def __init__(self, port: int, user: Any) -> None:
        self.port, self.user = port, user
        session = SessionStore()
        session[SESSION_KEY] = str(user.pk)
        session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
        session[HASH_SESSION_KEY] = user.get_session_auth_hash()
        session.create()
        self.session = str(session.session_key)
        basic = base64.b64encode(f"{user.get_username()}:password".encode()).decode()
        self.basic = {"Authorization": f"Basic {basic}"}

    def request(
        self, method: str, path: str, body: str = "", **headers: str
    ) -> tuple[int, str, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body or None, sent)
            response = connection.getresponse()
            return response.status, response.read().decode(), response.headers
        except (OSError, http.client.HTTPException) as error:
            raise Unknown(type(error).__name__) from error
        finally:
            connection.close()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"


Outcome = tuple[str, int]


def payload_of(uid: str, name: str, *, approved: bool) -> dict[str, Any]:
    return {"approved": approved, "comment": f"{uid} {SECRET}", "reviewer": name}


def python(site: Site, hook: Hook, payload: dict[str, Any]) -> Outcome:
    try:
        resume_hook(hook.token, payload, by=site.user)
    except HookAlreadyReceivedError:
        return "lost", 0
    except HookExpiredError:
        return "expired", 0
    except HookCancelledError:
        return "cancelled", 0
    except DatabaseError as error:
        raise Unknown(type(error).__name__) from error
    return "won", 0


def token(site: Site, hook: Hook, payload: dict[str, Any]) -> Outcome:
    diary("mail").write("mail", hook=str(hook.public_id), token=hook.token)
    path = reverse("stephooks-api:resume-by-token", args=[hook.token])
    return _api(site, path, {"payload": payload})


def api(site: Site, hook: Hook, payload: dict[str, Any]) -> Outcome:
    path = reverse("stephooks-api:resume", args=[hook.public_id])
    return _api(site, path, {"payload": payload}, **site.basic)


def decide(site: Site, hook: Hook, payload: dict[str, Any]) -> Outcome:
    path = reverse(f"stephooks-api:{_verb(payload)}", args=[hook.public_id])
    return _api(site, path, {"comment": payload["comment"]}, **site.basic)


def _verb(payload: dict[str, Any]) -> str:
    return "approve" if payload["approved"] else "reject"


def _api(site: Site, path: str, body: dict[str, Any], **headers: str) -> Outcome:
    status, text, _ = site.request("POST", path, json.dumps(body), Content_Type="application/json", **headers)
    if status == 200:
        return "won", status
    if status >= 500:
        return "failed", status
    if not text:
        raise Unknown("the answer broke off")
    return PROBLEMS.get(json.loads(text).get("type", ""), "refused"), status


def link(site: Site, hook: Hook, payload: dict[str, Any]) -> Outcome:
    link_token = make_link_token(hook, site.user.email)
    diary("mail").write("mail", hook=str(hook.public_id), token=link_token)
    path = reverse("django_stephooks:review", args=[link_token])
    return _page(site, path, path, "stamp", payload, done=200)


def admin(site: Site, hook: Hook, payload: dict[str, Any]) -> Outcome:
    path = reverse("admin:django_stephooks_hook_change", args=[hook.pk])
    return _page(site, path, "", "seen", payload, done=302, Cookie=f"sessionid={site.session}")


def _page(
    site: Site, path: str, target: str, mark: str, payload: dict[str, Any], *, done: int, **headers: str
) -> Outcome:
    """Open a page, fill its form, and press a button."""
    status, text, received = site.request("GET", path, **headers)
    if status >= 500:
        return "failed", status
    form = _form(text, mark)
    if form is None:
        return _told(text), status
    if cookie := received.get("Set-Cookie"):
        headers["Cookie"] = "; ".join(filter(None, [headers.get("Cookie"), cookie.partition(";")[0]]))
    fields = {**form.fields, "comment": payload["comment"], "decision": _verb(payload)}
    status, text, _ = site.request(
        "POST",
        target or form.action,
        urlencode(fields),
        Origin=site.origin,
        Content_Type="application/x-www-form-urlencoded",
        **headers,
    )
    if status >= 500:
        return "failed", status
    return ("won" if status == done else _told(text)), status


def _form(text: str, mark: str) -> Form | None:
    forms = Page("", text).forms
    return next((form for form in forms if mark in form.fields and "comment" in form.fields), None)


def _told(text: str) -> str:
    said = " ".join(Page("", text).text.split())
    if not said:
        raise Unknown("the page broke off")
    return next((outcome for pattern, outcome in SAID if pattern.search(said)), "refused")


DOORS: dict[str, Callable[[Site, Hook, dict[str, Any]], Outcome]] = {
    "python": python,
    "api token": token,
    "api resume": api,
    "api decide": decide,
    "link": link,
    "admin": admin,
}


def answer(site: Site, hook: Hook, door: str, uid: str, *, approved: bool) -> str:
    """Give one answer through one door, and note what became of it."""
    # A link's reviewer is the address that it was sent to.
    name = site.user.email if door == "link" else site.user.get_username()
    payload = payload_of(uid, name, approved=approved)
    offer = {"uid": uid, "hook": hook.pk, "door": door}
    note("offered", payload=payload, **offer)
    try:
        outcome, status = DOORS[door](site, hook, payload)
        note("answered", outcome=outcome, status=status, **offer)
    except Unknown as error:
        outcome = "unknown"
        note("answered", outcome=outcome, error=str(error), **offer)
    finally:
        close_old_connections()
    return outcome
