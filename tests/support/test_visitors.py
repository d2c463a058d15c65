"""Nobody knows who visits: what strangers may not do, and what they cost.

STEPHOOKS_TEST_VISITORS   how many walk away (default: 50)
"""

from __future__ import annotations

import os
import threading
import uuid

import pytest
from django.core.cache import cache
from django.test import Client

from demo_project.support.models import LONGEST_MESSAGE, Conversation, Exchange
from django_stephooks import resume_hook
from django_stephooks.engine.worker import advance
from django_stephooks.models import Hook, Run
from django_stephooks.streaming import stream_token

from .visiting import PAPER, START, Visitor, asked, events, told, work

pytestmark = pytest.mark.django_db(transaction=True)

MARKUP = "<script>alert('paper')</script>"


def test_two_visitors_see_their_own_answers_only():
    first, second = Visitor(), Visitor()
    one, other = first.say(PAPER), second.say("Where is my cat?")
    work()
    assert first.url != second.url
    resume_hook(asked(one).token, {"answer": "It comes at noon."})
    resume_hook(asked(other).token, {"answer": "On the roof."})
    streams = first.stream, second.stream
    work()
    assert [told(events(stream))[1] for stream in streams] == [
        ("colleague", "It comes at noon."),
        ("colleague", "On the roof."),
    ]
    assert "roof" not in first.page
    assert "noon" not in second.page


def test_stream_is_open_to_its_signed_address_alone():
    visitor = Visitor()
    exchange = visitor.say(PAPER)
    token = stream_token(exchange.run)
    assert token in visitor.stream
    assert Client().get(visitor.stream).status_code == 200
    public_id = str(exchange.run.public_id)
    for wrong in (token[:-1], token.swapcase(), token[::-1], public_id):
        assert visitor.client.get(visitor.stream.replace(token, wrong)).status_code == 404, wrong
    assert visitor.client.get(f"/api/stephooks/runs/{public_id}/stream/").status_code == 403


def test_conversation_that_there_is_not_is_not_found_and_not_made():
    client = Client()
    url = f"{START}{uuid.uuid4()}/"
    assert client.get(url).status_code == 404
    assert client.post(url, {"message": PAPER}).status_code == 404
    assert not Exchange.objects.exists()


def test_looking_at_the_page_makes_no_row():
    assert Client().get(START).status_code == 200
    assert not Conversation.objects.exists()


def test_page_is_kept_in_no_cache():
    visitor = Visitor()
    visitor.say(PAPER)
    assert "no-store" in visitor.client.get(visitor.url)["Cache-Control"]


def test_other_sites_cannot_post():
    client = Client(enforce_csrf_checks=True)
    assert client.post(START, {"message": PAPER}).status_code == 403
    assert not Conversation.objects.exists()


@pytest.mark.parametrize("message", ["", "   ", "x" * (LONGEST_MESSAGE + 1), "nul \0"])
def test_message_that_is_none_is_refused_and_keeps_nothing(message: str):
    response = Client().post(START, {"message": message})
    assert response.status_code == 400
    assert not Conversation.objects.exists()


def test_longest_message_reaches_the_colleague():
    visitor = Visitor()
    exchange = visitor.say("y" * LONGEST_MESSAGE)
    work()
    assert asked(exchange).title.startswith("A reader asks: yyy")


def test_markup_of_readers_and_colleagues_is_text():
    visitor = Visitor()
    exchange = visitor.say(MARKUP)
    assert MARKUP not in visitor.page
    work()
    resume_hook(asked(exchange).token, {"answer": MARKUP})
    work()
    assert MARKUP not in visitor.page
    assert visitor.sees[2] == ("colleague", MARKUP)


def test_one_question_at_a_time():
    visitor = Visitor()
    visitor.say(PAPER)
    for _ in ("ready", "waiting"):
        response = visitor.client.post(visitor.url, {"message": PAPER})
        assert response.status_code == 400
        assert "One at a time" in response.content.decode()
        work()
    assert Exchange.objects.count() == Run.objects.filter(workflow__contains="support").count() == 1


def test_visitors_who_walk_away_leave_rows_and_hold_no_worker():
    number = int(os.environ.get("STEPHOOKS_TEST_VISITORS", "50"))
    visitors = [Visitor() for _ in range(number)]
    exchanges = [visitors[0].say("Where is my cat?")]
    work()
    threads = {*threading.enumerate()}  # those that the libraries keep for themselves, too
    exchanges += [visitor.say("Where is my cat?") for visitor in visitors[1:]]
    work()
    assert Run.objects.filter(status=Run.Status.SUSPENDED, workflow__contains="support").count() == number
    assert Hook.objects.pending().count() == number
    # A worker that comes now finds nothing that it could do, and nothing waits in this process.
    assert advance("default") is None
    assert {*threading.enumerate()} <= threads
    cache.clear()
    resume_hook(asked(exchanges[-1]).token, {"answer": "On the roof."})
    work()
    assert visitors[-1].sees[2] == ("colleague", "On the roof.")
    assert Hook.objects.pending().count() == number - 1
