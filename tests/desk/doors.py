"""The doors through which an answer comes, each used as its people use it.

A door is opened first (the page is loaded, the mail has come), and an answer is given through it
later; in between, anything may happen.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Any, ClassVar

from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from django_stephooks import (
    HookAlreadyReceivedError,
    HookCancelledError,
    HookExpiredError,
    InvalidPayloadError,
    NotAllowedError,
    StepHooksError,
    resume_hook,
)
from django_stephooks.exceptions import HookError
from django_stephooks.models import Hook
from django_stephooks.services.rules import actions_for
from tests.admin import pages
from tests.review.visiting import Visitor, path_of
from tests.review.visiting import text_of as text_behind_a_link

PROBLEMS = {
    "urn:stephooks:not-allowed": NotAllowedError,
    "urn:stephooks:already-answered": HookAlreadyReceivedError,
    "urn:stephooks:expired": HookExpiredError,
    "urn:stephooks:cancelled": HookCancelledError,
    "urn:stephooks:invalid-payload": InvalidPayloadError,
}


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What came back: what was said and, where the door has such things, a status and an error."""

    said: str
    status: int | None = None
    error: type[Exception] | None = None


class Door:
    """`user` answers `hook` through it. `who` is what they are called there."""

    # Pages speak to people: of what became of a question they tell more kindly than an error does.
    speaks_kindly = False
    has_status = True
    has_error = False
    # Settings of ours that it takes.
    needs: ClassVar[dict[str, Any]] = {}

    def __init__(self, user: Any, hook: Hook) -> None:
        self.user, self.hook = user, hook

    @property
    def who(self) -> str:
        """The reviewer in the payload."""
        return str(self.user.get_username())

    @property
    def refused_as(self) -> str:
        """The one who a refusal says may not answer."""
        return self.who

    def open(self) -> None:
        """What comes before the answer."""

    def answer(self, payload: dict[str, Any]) -> Reply:
        """Approve. A door that asks for a part of the payload only is given that part."""
        raise NotImplementedError

    def look(self) -> str:
        """What is said to whoever comes only now."""
        raise NotImplementedError

    def status_of(self, error: type[StepHooksError]) -> int:
        """The HTTP status that stands for an error here."""
        return error.status_code

    def browser(self) -> Client:
        client = Client()
        client.force_login(self.user)
        return client


def _typed(payload: dict[str, Any]) -> dict[str, str]:
    """What is typed in a form to give this payload."""
    return {name: str(value) for name, value in payload.items() if name not in ("approved", "reviewer")}


class _Desk(Door):
    """In the admin, where somebody is logged in."""

    speaks_kindly = True

    def log_in(self) -> None:
        self.client = self.browser()

    def open(self) -> None:
        self.log_in()

    def _reply(self, response: Any) -> Reply:
        """With what the page says to which it leads."""
        if response.status_code != 302:
            return Reply(status=response.status_code, said=pages.text_of(response))
        following = pages.text_of(self.client.get(response["Location"], follow=True))
        return Reply(status=302, said=f"{response['Location']} {following}")


class AdminPage(_Desk):
    def open(self) -> None:
        super().open()
        page = self.client.get(pages.address(self.hook))
        (self.form,) = [form for form in pages.parsed(page).forms if "seen" in form.fields]

    def answer(self, payload: dict[str, Any]) -> Reply:
        fields = {**self.form.fields, **_typed(payload), "decision": "approve"}
        return self._reply(self.client.post(self.form.action, fields))

    def look(self) -> str:
        return self._reply(self.client.get(pages.address(self.hook))).said


class Bulk(_Desk):
    """The action of the list, with the question selected."""

    def selected(self) -> dict[str, Any]:
        return {"_selected_action": [str(self.hook.pk)], "select_across": "0"}

    def open(self) -> None:
        super().open()
        (self.form,) = [form for form in pages.parsed(self._select()).forms if "selection" in form.fields]

    def _select(self) -> Any:
        chosen = {"action": "approve_selected", "index": "0", **self.selected()}
        return self.client.post(f"{pages.HOOKS}?status=all", chosen)

    def answer(self, payload: dict[str, Any]) -> Reply:
        fields = {**self.form.fields, "comment": payload["comment"]}
        return self._reply(self.client.post(self.form.action, fields))

    def look(self) -> str:
        return self._reply(self._select()).said


class BulkAcross(Bulk):
    """The same with a request made by hand: another number, and "all that the list has"."""

    def selected(self) -> dict[str, Any]:
        return {"_selected_action": ["0"], "select_across": "1"}


class _Api(Door):
    has_error = True

    def open(self) -> None:
        self.client = self.browser()

    def _post(self, address: str, body: dict[str, Any]) -> Reply:
        response = self.client.post(address, json.dumps(body), content_type="application/json")
        data = response.json()
        if response.status_code == 200:
            return Reply(status=200, said="")
        # What our rules do not say, REST framework does.
        return Reply(status=response.status_code, said=data["detail"], error=PROBLEMS.get(data["type"]))

    def _address(self, way: str) -> str:
        return reverse(f"stephooks-api:{way}", args=[self.hook.public_id])

    def look(self) -> str:
        data = self.client.get(self._address("hook")).json()
        return str(data["reason"] if "reason" in data else data["detail"])


class ApiApprove(_Api):
    def answer(self, payload: dict[str, Any]) -> Reply:
        return self._post(self._address("approve"), {"comment": payload["comment"]})


class ApiResume(_Api):
    def answer(self, payload: dict[str, Any]) -> Reply:
        return self._post(self._address("resume"), {"payload": payload})


class ApiToken(_Api):
    """Another system, which has the token and no account."""

    def browser(self) -> Client:
        return Client()

    def answer(self, payload: dict[str, Any]) -> Reply:
        return self._post(
            reverse("stephooks-api:resume-by-token", args=[self.hook.token]), {"payload": payload}
        )

    def look(self) -> str:
        return self.answer({}).said  # there is nothing to look at: it is told when it answers


class _Link(Door):
    speaks_kindly = True
    user_id = ""

    address = "dana@example.com"

    @property
    def who(self) -> str:
        return self.address

    @property
    def refused_as(self) -> str:
        return f"link sent to {self.address}"

    def open(self) -> None:
        self.visitor = Visitor(Client(enforce_csrf_checks=True))
        self.load()

    def load(self) -> None:
        self.path = path_of(self.hook, self.address, user_id=self.user_id)
        self.page = self.visitor.open(self.path)

    def status_of(self, error: type[StepHooksError]) -> int:
        # A link whose question is settled, however, is gone.
        return 410 if issubclass(error, HookError) else error.status_code

    def answer(self, payload: dict[str, Any]) -> Reply:
        response = self.visitor.press(self.page, "approve", **_typed(payload))
        return Reply(status=response.status_code, said=text_behind_a_link(response))

    def look(self) -> str:
        response = self.visitor.open(self.path)
        return response.get("Location") or text_behind_a_link(response)


class LinkToUser(_Link):
    @property
    def user_id(self) -> str:  # type: ignore[override]
        return str(self.user.pk)


class LinkWithLogin(LinkToUser):
    """Both are asked: the one whose link it is, and the one who is logged in."""

    needs: ClassVar[dict[str, Any]] = {"LINK_REQUIRES_LOGIN": True}

    @property
    def who(self) -> str:
        return str(self.user.get_username())

    def open(self) -> None:
        self.visitor = Visitor(Client(enforce_csrf_checks=True))
        self.visitor.client.force_login(self.user)
        self.load()


class LinkToAddress(_Link):
    """The address that was given may be anybody's. Here an account has it too."""


class Command(Door):
    has_status = False

    def answer(self, payload: dict[str, Any]) -> Reply:
        return self._resume("--approve", "--comment", payload["comment"])

    def _resume(self, *how: str) -> Reply:
        out = io.StringIO()
        target = ("stephooks", "hooks", "resume", str(self.hook.pk))
        try:
            call_command(*target, *how, "--as", self.who, stdout=out)
        except CommandError as error:
            return Reply(said=str(error))
        return Reply(said="")

    def look(self) -> str:
        return self._resume("--payload", "null").said


class CommandWithPayload(Command):
    def answer(self, payload: dict[str, Any]) -> Reply:
        return self._resume("--payload", json.dumps(payload))


class Python(Door):
    has_error = True

    def answer(self, payload: dict[str, Any]) -> Reply:
        try:
            resume_hook(self.hook.token, payload, by=self._user())
        except StepHooksError as error:
            return Reply(status=error.status_code, said=str(error), error=type(error))
        return Reply(status=200, said="")

    def look(self) -> str:
        return actions_for(self._user(), Hook.objects.get(pk=self.hook.pk)).reason

    def _user(self) -> Any:
        # Their permissions are kept with the object.
        return get_user_model().objects.get(pk=self.user.pk)


DOORS: dict[str, type[Door]] = {
    "admin page": AdminPage,
    "bulk": Bulk,
    "bulk with select_across": BulkAcross,
    "API approve": ApiApprove,
    "API resume": ApiResume,
    "API token": ApiToken,
    "link to a user": LinkToUser,
    "link with a login": LinkWithLogin,
    "link to an address": LinkToAddress,
    "command": Command,
    "command with a payload": CommandWithPayload,
    "Python": Python,
}
