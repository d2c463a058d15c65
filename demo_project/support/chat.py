"""What happens to a conversation from outside its runs: a reader says something."""

from __future__ import annotations

from django.db import transaction

from django_stephooks.models import Run

from .models import Conversation, Exchange
from .workflows import reply


class Refused(Exception):
    """This message cannot be taken now; the text says why."""


def say(conversation: Conversation, message: str) -> Exchange:
    """Keep the reader's message and start the run that answers it, both or neither."""
    with transaction.atomic():
        # The row's lock makes two messages at once one after the other.
        conversation = Conversation.objects.select_for_update().get(pk=conversation.pk)
        if conversation.credits < 1:
            raise Refused("You have asked all the questions of this conversation.")
        runs = conversation.exchanges.values("run")
        if Run.objects.filter(pk__in=runs, status__in=Run.ACTIVE).exists():
            raise Refused("Your last question is being answered. One at a time, please.")
        exchange = conversation.exchanges.create(message=message)
        run = reply.using(key=f"reader-{exchange.pk}", subject=conversation).start(exchange_id=exchange.pk)
        Exchange.objects.filter(pk=exchange.pk).update(run=run)
    return Exchange.objects.select_related("run").get(pk=exchange.pk)
