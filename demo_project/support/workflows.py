"""The answer to a reader's message: a clerk that asks a colleague, and a credit that is taken once.

A visitor who walks away leaves rows behind, and no worker that waits.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import F

from django_stephooks import emit, once, step
from django_stephooks.mail import email_reviewers

from .models import Conversation, Exchange

PATIENCE = "1h"


@step
def reply(exchange_id: int) -> str:
    """Answer one message, word by word; return what became of it."""
    # Not above: what has no business with agents (the web server, migrations) starts without LangChain.
    from django_stephooks.contrib.langgraph import run_agent

    from .clerk import CLERK, part_of

    # When the colleague's answer comes, this step starts from its top again: only its first pass may
    # ask whether there is a credit left, and take it.
    if not once("charge", charge, exchange_id):
        return "refused"
    exchange = Exchange.objects.get(pk=exchange_id)
    before = messages_before(exchange)

    def show(chunk: Any, key: str) -> None:
        message, _ = chunk
        if part := part_of(message):
            # What belongs to one message of the agent's has the same key but for the number.
            emit({"part": key.rpartition(":")[0], **part}, key=key)

    state = run_agent(
        CLERK,
        {"messages": [*before, ("user", exchange.message)]},
        name="ask_colleague",
        timeout=PATIENCE,
        on_created=email_reviewers(["editor@example.com"]),
        on_stream=show,
    )
    said = [part for message in state["messages"][len(before) + 1 :] if (part := part_of(message))]
    Exchange.objects.filter(pk=exchange_id).update(said=said)
    return "answered"


def charge(exchange_id: int) -> bool:
    """Take a credit for this message, if there is one; False if not.

    `once` records that it was done. A process that is killed right before it records that would do it
    again: `is_charged`, in the same transaction as the credit, is for that.
    """
    with transaction.atomic():
        exchange = Exchange.objects.select_for_update().get(pk=exchange_id)
        if exchange.is_charged:
            return True
        account = Conversation.objects.filter(pk=exchange.conversation_id, credits__gt=0)
        if not account.update(credits=F("credits") - 1):
            return False
        Exchange.objects.filter(pk=exchange_id).update(is_charged=True)
    return True


def messages_before(exchange: Exchange) -> list[tuple[str, str]]:
    """What was said in the conversation so far, for the model."""
    messages = []
    for earlier in exchange.conversation.exchanges.filter(pk__lt=exchange.pk, said__isnull=False):
        messages.append(("user", earlier.message))
        messages += [("ai", part["text"]) for part in earlier.said]
    return messages
