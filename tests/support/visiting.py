"""What visitors of the readers' desk do, and what they see."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import Any, NamedTuple
from urllib.parse import urljoin

from django.test import Client

from demo_project.browser import Page
from demo_project.support.models import Conversation, Exchange
from django_stephooks.engine.worker import advance
from django_stephooks.models import Hook, Run

START = "/support/"
PAPER = "My paper did not come."
PRICE = "What is the price?"
ASKING = "That is not in my book of house rules. Let me ask a colleague; this may take a while."
PASSING_ON = "So says my colleague. Is there anything else that you would like to know?"
RULE = "A copy is two pence, and a year of them eight shillings. You may begin with any Monday."
PARTS = re.compile(r'<p class="says (\w+)"><b>[^<]*</b> <span>([^<]*)</span></p>')


class Event(NamedTuple):
    id: str
    event: str
    data: Any


class Visitor:
    """Somebody without an account, at their conversation."""

    def __init__(self) -> None:
        self.client = Client()
        self.url = START

    def say(self, message: str) -> Exchange:
        """Send the form; the conversation's page is opened."""
        response = self.client.post(self.url, {"message": message})
        assert response.status_code == 302, response.content.decode()
        self.url = response["Location"]
        return self.conversation.exchanges.latest("pk")

    @property
    def conversation(self) -> Conversation:
        return Conversation.objects.get(pk=self.url.split("/")[-2])

    @property
    def page(self) -> str:
        response = self.client.get(self.url)
        assert response.status_code == 200
        return response.content.decode()

    @property
    def sees(self) -> list[tuple[str, str]]:
        """Who said what, without script."""
        return [(who, unescape(text)) for who, text in PARTS.findall(self.page)]

    @property
    def stream(self) -> str:
        """Where the page watches the answer; empty if there is nothing to watch."""
        found = re.search(r'data-stream="([^"]*)"', self.page)
        return found[1] if found else ""


def events(url: str, after: str = "") -> list[Event]:
    """What the server sends now to whoever opens this stream, without cookies."""
    response = Client(headers={"Last-Event-ID": after} if after else None).get(url)
    assert response.status_code == 200, response.status_code
    return [*_parsed(b"".join(response.streaming_content).decode())]


def _parsed(body: str) -> Iterator[Event]:
    for block in body.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in fields:
            yield Event(fields.get("id", ""), fields["event"], json.loads(fields["data"]))


def told(events: list[Event]) -> list[tuple[str, str]]:
    """Who says what, as the page's script puts the chunks together."""
    parts: dict[str, tuple[str, str]] = {}
    for event in events:
        if event.event == "chunk":
            chunk = event.data["chunk"]
            who, text = parts.get(chunk["part"], (chunk["who"], ""))
            parts[chunk["part"]] = (who, text + chunk["text"])
    return [*parts.values()]


def work() -> None:
    """Workers come, and do what there is to do."""
    while Run.objects.filter(status=Run.Status.PENDING).exists():
        advance("default")


def asked(exchange: Exchange) -> Hook:
    """What the clerk asks a colleague for this message."""
    return Hook.objects.get(run=Exchange.objects.get(pk=exchange.pk).run)


def send_answer(client: Client, url: str, answer: str) -> Any:
    """Fill in the form of a question's page, and press its first button that has a name."""
    page = Page(url, client.get(url).content.decode())
    form = next(form for form in page.forms if "answer" in form.fields)
    button = next(button for button in form.buttons if button.text.strip())
    data = {**form.fields, "answer": answer, **({button.name: button.value} if button.name else {})}
    return client.post(urljoin(url, button.action or form.action), data)
