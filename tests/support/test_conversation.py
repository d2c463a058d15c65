"""A reader writes, the clerk asks a colleague, the chat goes on."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core import mail
from django.core.management import call_command
from django.test import Client

from demo_project.support.models import CREDITS
from demo_project.support.workflows import PATIENCE
from django_stephooks import resume_hook
from django_stephooks.models import Hook, Run
from django_stephooks.testing import later
from tests.admin.pages import address
from tests.review.visiting import path_of

from .visiting import ASKING, PAPER, PASSING_ON, PRICE, RULE, Visitor, asked, events, send_answer, told, work

pytestmark = pytest.mark.django_db(transaction=True)

THE_BOY = "The boy brings another one at noon."
THE_TALK = [("clerk", ASKING), ("colleague", THE_BOY), ("clerk", PASSING_ON)]


def test_what_the_house_rules_say_is_answered_at_once():
    visitor = Visitor()
    exchange = visitor.say(PRICE)
    stream = visitor.stream
    work()
    assert told(events(stream)) == [("clerk", RULE)]
    assert visitor.sees == [("reader", PRICE), ("clerk", RULE)]
    assert visitor.stream == ""
    assert not Hook.objects.filter(run=exchange.run).exists()


def test_words_arrive_one_by_one():
    visitor = Visitor()
    visitor.say(PRICE)
    stream = visitor.stream
    work()
    chunks = [event.data["chunk"]["text"] for event in events(stream) if event.event == "chunk"]
    assert len(chunks) == len(RULE.split())
    assert "".join(chunks) == RULE


@pytest.mark.parametrize("door", ["admin", "link"])
def test_colleague_answers_and_the_chat_goes_on(door: str, editor_client: Client):
    visitor = Visitor()
    exchange = visitor.say(PAPER)
    work()
    stream = visitor.stream
    assert told(events(stream)) == [("clerk", ASKING)]
    assert events(stream)[-1].event == "waiting"
    hook = asked(exchange)
    assert hook.title == f"A reader asks: {PAPER}"

    client, url = (editor_client, address(hook)) if door == "admin" else (Client(), path_of(hook))
    send_answer(client, url, THE_BOY)
    assert asked(exchange).status == Hook.Status.RECEIVED
    work()

    assert told(events(stream)) == THE_TALK
    assert events(stream)[-1].data == {"status": "completed"}
    assert visitor.sees == [("reader", PAPER), *THE_TALK]

    visitor.say(PRICE)
    work()
    assert visitor.sees == [("reader", PAPER), *THE_TALK, ("reader", PRICE), ("clerk", RULE)]
    assert visitor.conversation.credits == CREDITS - 2


def test_editor_gets_a_link_by_mail():
    visitor = Visitor()
    visitor.say(PAPER)
    work()
    (message,) = mail.outbox
    assert message.to == ["editor@example.com"]
    assert PAPER in message.subject


def test_who_reconnects_gets_the_rest_and_nothing_twice():
    visitor = Visitor()
    exchange = visitor.say(PAPER)
    work()
    stream = visitor.stream
    before = events(stream)
    last = [event.id for event in before if event.id][-1]
    assert [event.event for event in events(stream, after=last)] == ["waiting"]
    resume_hook(asked(exchange).token, {"answer": THE_BOY})
    work()
    assert told(events(stream, after=last)) == THE_TALK[1:]


def test_nobody_answers_and_the_clerk_says_so():
    visitor = Visitor()
    visitor.say(PAPER)
    work()
    with later(PATIENCE):
        work()
    assert [who for who, _ in visitor.sees] == ["reader", "clerk", "clerk"]
    assert "nobody who could tell me" in visitor.sees[-1][1]


def test_what_failed_is_said_to_have_failed_and_the_reader_may_ask_again(monkeypatch: pytest.MonkeyPatch):
    visitor = Visitor()
    exchange = visitor.say(PAPER)
    Run.objects.filter(pk=exchange.run_id).update(status=Run.Status.FAILED, due_at=None)
    assert "could not be answered" in visitor.page
    visitor.say(PRICE)


def test_migrations_and_models_agree():
    call_command(
        "makemigrations", "newsroom", "newsroom_support", check=True, dry_run=True, stdout=StringIO()
    )
