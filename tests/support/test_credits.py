"""A question costs one credit, however often its step runs."""

from __future__ import annotations

from typing import Any

import pytest

from demo_project.support import clerk, workflows
from demo_project.support.models import CREDITS, Conversation, Exchange
from django_stephooks import resume_hook
from django_stephooks.engine.worker import advance
from django_stephooks.exceptions import HookAlreadyReceivedError
from django_stephooks.models import Hook, Run
from django_stephooks.services.sweep import sweep
from tests.engine.killing import Process

from .visiting import PAPER, PRICE, Visitor, asked, events, told, work

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def charged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """For which exchanges a credit was asked for, in order."""
    asked_for: list[int] = []
    charge = workflows.charge

    def noted(exchange_id: int) -> bool:
        asked_for.append(exchange_id)
        return charge(exchange_id)

    monkeypatch.setattr(workflows, "charge", noted)
    return asked_for


def test_first_pass_alone_asks_for_the_credit(charged: list[int]):
    visitor = Visitor()
    exchange = visitor.say(PAPER)
    work()
    assert visitor.conversation.credits == CREDITS - 1
    resume_hook(asked(exchange).token, {"answer": "At noon."})
    work()
    assert charged == [exchange.pk]
    assert visitor.conversation.credits == CREDITS - 1


def test_last_credit_pays_for_the_answer_that_comes_after_it_is_gone():
    visitor = Visitor()
    conversation = Conversation.objects.create(credits=1)
    visitor.url = conversation.get_absolute_url()
    exchange = visitor.say(PAPER)
    work()
    assert visitor.conversation.credits == 0
    resume_hook(asked(exchange).token, {"answer": "At noon."})
    work()
    assert ("colleague", "At noon.") in visitor.sees
    assert "all the questions" in visitor.page
    response = visitor.client.post(visitor.url, {"message": PRICE})
    assert response.status_code == 400
    assert Exchange.objects.count() == 1


def test_credit_that_is_gone_when_the_run_begins_is_not_overdrawn():
    visitor = Visitor()
    exchange = visitor.say(PAPER)
    Conversation.objects.update(credits=0)
    work()
    assert Run.objects.get(pk=exchange.run_id).result == "refused"
    assert visitor.conversation.credits == 0
    assert not Hook.objects.exists()
    assert "could not be answered" in visitor.page


@pytest.mark.parametrize(("left", "shown"), [(5, "4 questions left"), (2, "1 question left")])
def test_page_counts_the_question_that_is_being_answered(left: int, shown: str):
    visitor = Visitor()
    visitor.url = Conversation.objects.create(credits=left).get_absolute_url()
    visitor.say(PAPER)
    assert shown in visitor.page
    work()
    assert shown in visitor.page


process = Process()


def play(clock: Any, kill_at: int | None) -> tuple[Visitor, str]:
    """A conversation with one question; killed once, at this commit point. And its stream."""
    process.begin(kill_at)
    visitor = Visitor()
    visitor.say(PAPER)
    stream = visitor.stream
    for _ in range(10):
        while alive(lambda: advance("default")) or Run.objects.filter(status="pending").exists():
            pass
        if not visitor.stream:
            return visitor, stream
        for hook in Hook.objects.pending():
            try:
                alive(lambda hook=hook: resume_hook(hook.token, {"answer": "At noon."}))
            except HookAlreadyReceivedError:
                continue
        clock.advance("5m")
        sweep()
    raise AssertionError("It does not come to an end.")


def alive(action: Any) -> Any:
    with process.living():
        return action()


def test_killed_at_each_commit_it_costs_one_credit_and_reads_the_same(
    clock: Any, monkeypatch: pytest.MonkeyPatch
):
    # Each word and each mail has commits of its own; a few are enough.
    monkeypatch.setattr(clerk, "ASKING", "I ask.")
    monkeypatch.setattr(clerk, "PASSING_ON", "That is it.")
    monkeypatch.setattr(workflows, "email_reviewers", lambda addresses: None)
    visitor, stream = play(clock, None)
    seen, points = visitor.sees, len(process.points)
    assert [who for who, _ in seen] == ["reader", "clerk", "colleague", "clerk"]
    assert told(events(stream)) == seen[1:]
    assert points > 10
    for number in range(1, points + 1):
        visitor, stream = play(clock, number)
        where = f"killed {process.points[number - 1]}, point {number} of {points}"
        assert visitor.sees == seen, where
        assert told(events(stream)) == seen[1:], where
        assert visitor.conversation.credits == CREDITS - 1, where
