"""What a person with a link does: open it, and press one of the buttons."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from typing import Any

from django.test import Client
from django.urls import reverse

from django_stephooks.links import make_link_token
from django_stephooks.models import Hook

DANA = "dana@example.com"


def path_of(hook: Hook, address: str = DANA, **options: Any) -> str:
    return reverse("django_stephooks:review", args=[make_link_token(hook, address, **options)])


def again(row: Any) -> Any:
    """The row as it is now."""
    row.refresh_from_db()
    return row


def text_of(response: Any) -> str:
    """What stands on a page, without markup."""
    body = re.sub(r"(?s)<(head|style)\b.*?</\1>", " ", response.content.decode())
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


class Page(HTMLParser):
    """The form of a page: its fields with their values, and its buttons."""

    def __init__(self, response: Any) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self.buttons: list[str] = []
        self.pressed_by_enter: dict[str, str | None] | None = None
        self.scripts = 0
        self.addresses: list[str] = []
        self._textarea = ""
        self.feed(response.content.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name = given.get("name") or ""
        self.addresses += [given[at] or "" for at in ("href", "src", "action") if at in given]
        if tag == "script" or any(at.startswith("on") for at in given):
            self.scripts += 1
        if tag == "input":
            self.fields[name] = given.get("value") or ""
        if tag == "textarea":
            self._textarea = name or given.get("id") or ""
            self.fields[self._textarea] = ""
        if tag == "button":
            if self.pressed_by_enter is None:
                self.pressed_by_enter = given
            if name:
                self.buttons.append(given.get("value") or "")

    def handle_data(self, data: str) -> None:
        if self._textarea:
            self.fields[self._textarea] += (
                data.removeprefix("\n") if not self.fields[self._textarea] else data
            )

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._textarea = ""


class Visitor:
    """A browser and the person at it."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def open(self, path: str) -> Any:
        return self.client.get(path)

    def press(self, page: Any, decision: str = "approve", /, path: str = "", **typed: str) -> Any:
        """Fill the form of a page that was opened, and press a button."""
        form = Page(page)
        assert decision in form.buttons, form.buttons
        fields = {**form.fields, **typed, "decision": decision}
        return self.client.post(
            path or page.request["PATH_INFO"], fields, headers={"origin": "http://testserver"}
        )

    def decide(self, path: str, decision: str = "approve", /, **typed: str) -> Any:
        return self.press(self.open(path), decision, **typed)
