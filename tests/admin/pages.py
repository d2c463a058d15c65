"""Where the desk's pages are, and what is on them."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from demo_project.browser import Page
from django_stephooks.models import Hook
from django_stephooks.models.fields import Encoded
from django_stephooks.services.digest import digest_of

HOOKS = "/admin/django_stephooks/hook/"
RUNS = "/admin/django_stephooks/run/"

# What a class that is gone has left behind: nobody can read it any more.
UNREADABLE = Encoded('{"$t": "model", "c": "gone:Gone", "v": {}}')


def address(row: Any, page: str = "change") -> str:
    return reverse(f"admin:django_stephooks_{row._meta.model_name}_{page}", args=[row.pk])


def parsed(response: Any) -> Page:
    return Page(response.request["PATH_INFO"], response.content.decode())


def text_of(response: Any) -> str:
    return " ".join(parsed(response).text.split())


def answer(client: Any, hook: Hook, decision: str = "approve", comment: str = "", **fields: Any) -> Any:
    """Post the form of its page, as it is now."""
    shown = digest_of(Hook.objects.get(pk=hook.pk))
    sent = {"decision": decision, "comment": comment, "seen": shown, **fields}
    return client.post(address(hook, "answer"), sent)


def buttons(form: Any) -> list[Any]:
    """Those that can be pressed: the first one only keeps Enter from pressing another."""
    return [button for button in form.buttons if button.name]


def again(row: Any) -> Any:
    """The row as it is now."""
    return type(row).objects.get(pk=row.pk)
