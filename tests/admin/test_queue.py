"""What was seen is what is answered; and the way from one question to the next."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from django_stephooks.models import Event, Hook
from django_stephooks.services.digest import digest_of
from tests.factories import HookFactory, UserFactory

from .pages import HOOKS, address, again, answer, buttons, parsed, text_of

pytestmark = pytest.mark.django_db


def form_on(response: Any) -> Any:
    (form,) = [form for form in parsed(response).forms if "comment" in form.fields]
    return form


def press(browser: Client, response: Any, text: str, **typed: str) -> Any:
    """Fill the form of a page that was opened, and press a button."""
    form = form_on(response)
    (button,) = [button for button in buttons(form) if button.text == text]
    sent = {**form.fields, **typed, button.name: button.value}
    return browser.post(button.action or form.action, sent)


def test_digest_of_what_was_shown_is_stored_with_the_answer(browser: Client) -> None:
    hook = HookFactory(context={"fee": 10})
    shown = digest_of(hook)
    assert press(browser, browser.get(address(hook)), "Approve").status_code == 302
    assert hook.run.events.get(type=Event.Type.HOOK_RECEIVED).data["seen"] == shown


def test_what_changed_since_the_page_was_opened_is_shown_again(browser: Client) -> None:
    hook = HookFactory(context={"fee": 10})
    page = browser.get(address(hook))
    Hook.objects.update(context={"fee": 1000})
    response = press(browser, page, "Approve", comment="Cheap.")
    assert response.status_code == 409
    assert "What is asked has changed since you opened this page." in text_of(response)
    assert "fee 1000" in text_of(response)
    assert form_on(response).fields["comment"] == "Cheap."
    assert again(hook).status == Hook.Status.PENDING
    assert press(browser, response, "Approve").status_code == 302


@pytest.mark.parametrize("seen", ["", "0" * 64])
def test_answer_to_what_nobody_has_seen_is_refused(browser: Client, seen: str) -> None:
    hook = HookFactory()
    assert answer(browser, hook, seen=seen).status_code == 409
    assert again(hook).status == Hook.Status.PENDING


def test_enter_in_a_field_presses_no_button(browser: Client) -> None:
    html = browser.get(address(HookFactory())).content.decode()
    form = html.partition('class="stephooks-answer"')[2]
    assert form.index('<button type="submit" disabled hidden></button>') < form.index('name="decision"')


def test_approve_and_next_walks_through_the_queue(browser: Client, dana: Any) -> None:
    now = timezone.now()
    last = HookFactory(title="last")
    third = HookFactory(title="third", expires_at=now + timedelta(days=1))
    first = HookFactory(title="first", expires_at=now + timedelta(hours=1))
    HookFactory(expires_at=now + timedelta(hours=2), reviewers=["email:lou@example.com"])
    HookFactory(expires_at=now + timedelta(hours=2), run__started_by=dana)
    HookFactory(expires_at=now + timedelta(hours=2), received=True)
    second = HookFactory(title="second", expires_at=first.expires_at)
    page = browser.get(address(first), {"_changelist_filters": "q=x"})
    for hook in (second, third, last):
        response = press(browser, page, "Approve and next")
        assert response["Location"] == f"{address(hook)}?_changelist_filters=q%3Dx"
        page = browser.get(response["Location"])
    assert "Approve and next" not in text_of(page)
    assert Hook.objects.filter(channel="admin").count() == 3


def test_queue_begins_anew_after_its_end(browser: Client) -> None:
    urgent = HookFactory(expires_at=timezone.now() + timedelta(hours=1))
    last = HookFactory()
    response = press(browser, browser.get(address(last)), "Approve and next")
    assert response["Location"] == address(urgent)


def test_end_of_the_queue_is_the_list(browser: Client) -> None:
    hook, other = HookFactory(), HookFactory()
    page = browser.get(address(hook))
    other.run.delete()
    response = press(browser, page, "Approve and next")
    assert response["Location"] == HOOKS
    assert "No other question awaits your review." in text_of(browser.get(HOOKS))


def test_next_question_can_be_looked_at_without_answering(browser: Client) -> None:
    hook, other = HookFactory(), HookFactory()
    assert parsed(browser.get(address(hook))).link("Next question").endswith(address(other))


def test_page_tells_the_story_so_far(browser: Client) -> None:
    hook = HookFactory()
    html = browser.get(address(hook)).content.decode()
    assert html.count('<li aria-current="step">') == 1
    assert "Question asked" in html


def test_groups_of_a_user_are_asked_for_once_in_a_request(
    browser: Client, dana: Any, django_assert_num_queries: Any
) -> None:
    from django_stephooks.services.rules import actions_for, identities

    dana.groups.add(group := Group.objects.create(name="desk"))
    hook = HookFactory(reviewers=[f"group:{group.pk}"])
    user = type(dana).objects.get(pk=dana.pk)
    assert actions_for(user, hook).may_answer
    with django_assert_num_queries(0):
        assert f"group:{group.pk}" in identities(user)
    assert f"group:{group.pk}" not in identities(UserFactory())
