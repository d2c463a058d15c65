"""The mail that asks: whom it reaches, what stands in it, and that it comes once."""

from __future__ import annotations

import re
from datetime import timedelta
from email import message_from_bytes
from typing import Any, ClassVar

import pytest
from django.contrib.auth.models import AnonymousUser, Group
from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.core.mail.backends import locmem
from django.test import Client
from django.utils import timezone

from django_stephooks.engine import store
from django_stephooks.links import link_url
from django_stephooks.mail import email_reviewers
from django_stephooks.models import Event, Hook, Run
from django_stephooks.services.hooks import resume_hook
from django_stephooks.services.links import SEND, mail_runs, revoke_links, send_links, send_new_links
from django_stephooks.services.runs import cancel_run, retry_run
from django_stephooks.services.sweep import sweep
from django_stephooks.workflows import DELAYS
from tests.clock import Clock
from tests.factories import HookFactory, UserFactory
from tests.review import workflows
from tests.review.visiting import DANA, Visitor, again

pytestmark = pytest.mark.django_db(transaction=True)

LINK = re.compile(r"https://testserver(/review/[A-Za-z0-9]+)")


class Unsteady(locmem.EmailBackend):
    """A mail server that does what a test wants before it takes a message, and after."""

    before: ClassVar[list[Any]] = []
    after: ClassVar[list[Any]] = []

    def send_messages(self, messages: Any) -> int:
        for happens in list(self.before):
            happens()
        count = super().send_messages(messages)
        for happens in list(self.after):
            happens()
        return count


@pytest.fixture(autouse=True)
def server(settings: Any) -> Any:
    backend = f"{__name__}.Unsteady"
    if hasattr(mail, "mailers"):
        settings.MAILERS = {"default": {"BACKEND": backend}}
    else:  # before Django 6.1
        settings.EMAIL_BACKEND = backend
    Unsteady.before, Unsteady.after = [], []
    workflows.whom[:] = [DANA]
    return Unsteady


class Killed(BaseException):
    """SIGKILL in the middle of a turn."""


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> Any:
    def is_dead(*args: Any, **kwargs: Any) -> None:
        raise Killed

    monkeypatch.setattr(store, "hand_back", is_dead)

    def kill() -> None:
        raise Killed

    return kill


def addresses() -> list[str]:
    return sorted(address for message in mail.outbox for address in message.to)


def link_in(message: Any) -> str:
    found = LINK.search(message.body)
    assert found, message.body
    return found[1]


def mail_run() -> Run:
    return Run.objects.get(workflow=SEND)


def test_mail_leads_to_a_page_on_which_the_run_is_decided(visitor: Visitor) -> None:
    run = workflows.asking.start()
    (message,) = mail.outbox
    assert message.to == [DANA]
    assert visitor.decide(link_in(message)).status_code == 200
    assert again(run).result == [{"approved": True, "comment": "", "reviewer": DANA}]
    assert Hook.objects.get().answered_by_label == f"link sent to {DANA}"


def test_async_workflows_ask_by_mail_too(visitor: Visitor) -> None:
    run = workflows.asking_async.start()
    visitor.decide(link_in(mail.outbox[0]))
    assert again(run).status == Run.Status.COMPLETED


def test_users_are_mailed_at_their_address_and_groups_by_their_active_members() -> None:
    desk = Group.objects.create(name="desk")
    for name, active, email in [
        ("ann", True, "ann@example.com"),
        ("bob", False, "bob@example.com"),
        ("cy", True, ""),
        ("dot", True, "not an address"),
    ]:
        user = UserFactory(username=name, is_active=active, email=email, reviewer=True)
        user.groups.add(desk)
    eve = UserFactory(email="Eve@EXAMPLE.com", reviewer=True)
    gone = UserFactory(email="gone@example.com", is_active=False)
    workflows.whom[:] = [DANA, "DANA@example.com", eve, "eve@example.com", desk, gone]
    workflows.asking.start()
    assert addresses() == ["Eve@example.com", "ann@example.com", DANA]
    # Each alone: nobody sees who else was asked.
    assert all(len(message.to) == 1 and not message.cc and not message.bcc for message in mail.outbox)
    links = {link_in(message) for message in mail.outbox}
    assert len(links) == 3


def test_link_of_a_user_is_refused_once_they_are_deactivated(visitor: Visitor) -> None:
    dana = UserFactory(email=DANA, reviewer=True)
    workflows.whom[:] = [dana]
    workflows.asking.start()
    assert visitor.open(link_in(mail.outbox[0])).status_code == 200
    dana.is_active = False
    dana.save()
    assert visitor.open(link_in(mail.outbox[0])).status_code == 403


def test_nobody_to_be_mailed_is_an_error_and_no_silence() -> None:
    workflows.whom[:] = [UserFactory(email=""), Group.objects.create(name="empty")]
    run = workflows.asking.start()
    assert again(run).status == Run.Status.FAILED
    assert "Nobody can be mailed about hook 'approve'" in run.error["message"]
    assert mail.outbox == []


def test_nobody_who_may_answer_is_an_error_that_says_why() -> None:
    dana = UserFactory(email=DANA)
    workflows.whom[:] = [dana]
    run = workflows.asking.start()
    assert again(run).status == Run.Status.FAILED
    assert "review_hook" in run.error["message"]


def test_whoever_may_not_answer_gets_no_mail_and_their_run_says_why() -> None:
    dana = UserFactory(username="dana", email=DANA, reviewer=True)
    workflows.whom[:] = [DANA, "eve@example.com"]
    workflows.asking.using(started_by=dana).start()
    assert addresses() == ["eve@example.com"]
    results = {run.arguments["recipient"]: run.result for run in Run.objects.filter(workflow=SEND)}
    assert results["eve@example.com"] == {"sent": True, "why": ""}
    assert results[DANA]["sent"] is False
    assert "started the run" in results[DANA]["why"]


@pytest.mark.parametrize("nonsense", ["dana@example.com", ["dana"], [None], [5], [AnonymousUser()]])
def test_nonsense_is_refused_where_it_is_written(nonsense: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        email_reviewers(nonsense)


def test_thing_that_is_nobody_is_refused_when_it_is_to_be_mailed() -> None:
    hook = HookFactory()
    with pytest.raises(TypeError, match="can not be mailed"):
        send_links(hook, [hook])


def test_site_without_an_address_says_so(configure: Any) -> None:
    configure(BASE_URL="")
    with pytest.raises(ImproperlyConfigured, match="BASE_URL"):
        send_links(HookFactory(), [DANA])
    configure(BASE_URL="desk.example.com")
    with pytest.raises(ImproperlyConfigured, match=r"https://www\.example\.com"):
        send_links(HookFactory(), [DANA])
    assert mail.outbox == []


def test_site_without_the_page_says_so(settings: Any) -> None:
    settings.ROOT_URLCONF = "tests.review.no_urls"
    with pytest.raises(ImproperlyConfigured, match=r"django_stephooks\.review\.urls"):
        link_url(HookFactory(), DANA)


# What stands in it


def test_subject_says_what_and_until_when(clock: Clock) -> None:
    workflows.asking.start("Publish 'Fog'?", timeout="24h")
    (message,) = mail.outbox
    deadline = Hook.objects.get().expires_at
    assert f"{deadline:%H:%M} UTC" in message.subject
    assert "Publish 'Fog'?" in message.subject
    assert "&#x27;" not in message.body
    html, kind = message.alternatives[0]
    assert kind == "text/html"
    assert link_in(message) in html
    assert "<script" not in html
    assert "<img" not in html


def test_subject_without_a_deadline_promises_none() -> None:
    workflows.asking.start("Publish 'Fog'?")
    assert mail.outbox[0].subject == "Please decide: Publish 'Fog'?"


def test_a_long_title_does_not_push_the_deadline_out_of_the_subject() -> None:
    workflows.asking.start("x" * 500, timeout="24h")
    assert len(mail.outbox[0].subject) < 150
    assert "UTC" in mail.outbox[0].subject


@pytest.mark.parametrize(
    "title",
    ["Fog\r\nBcc: eve@example.com", "Fog\nX: y", "Fog\x0b\x0c\x1c\x85\u2028\u2029X: y", "\r\n\r\nbody"],
)
def test_line_breaks_in_a_title_make_no_headers(title: str) -> None:
    workflows.asking.start(title)
    (message,) = mail.outbox
    parsed = message_from_bytes(message.message().as_bytes())
    assert len(message.subject.splitlines()) == 1
    assert parsed.get("Bcc") is None
    assert parsed.get("X") is None
    assert parsed["To"] == DANA


def test_markup_in_a_title_is_text_in_the_html() -> None:
    hook = HookFactory(title="<script>alert(1)</script>", description="<b>bold</b>")
    send_links(hook, [DANA])
    html, _ = mail.outbox[0].alternatives[0]
    assert "<script>" not in html
    assert "<b>" not in html
    assert "<script>alert(1)</script>" in mail.outbox[0].body


def test_text_that_no_mail_can_hold_does_not_keep_it_from_going_out() -> None:
    hook = HookFactory()
    # Stored by code that does not come through step_hook.
    hook.title = "Fog"
    Hook.objects.filter(pk=hook.pk).update(description="smile \U0001f600 and \ufffe")
    send_links(hook, [DANA])
    assert mail.outbox[0].message().as_bytes()


def test_no_absence_note_comes_back_and_every_mail_has_an_id_of_its_own() -> None:
    workflows.whom[:] = [DANA, "eve@example.com"]
    workflows.asking.start()
    for message in mail.outbox:
        assert message.message()["Auto-Submitted"] == "auto-generated"
    ids = {message.message()["Message-ID"] for message in mail.outbox}
    assert len(ids) == 2
    assert all(one.endswith("@testserver>") for one in ids)


def test_project_may_write_its_own_mail(settings: Any, tmp_path: Any) -> None:
    folder = tmp_path / "django_stephooks" / "mail"
    folder.mkdir(parents=True)
    (folder / "review_subject.txt").write_text("Our words\nfor {{ title }}")
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [tmp_path]}]
    workflows.asking.start("Fog?")
    assert mail.outbox[0].subject == "Our words for Fog?"


# Once, and not too late


def test_five_rounds_are_five_mails() -> None:
    run = workflows.asking.start(rounds=5)
    for number in range(5):
        resume_hook(Hook.objects.get(run=run, status=Hook.Status.PENDING).token, number)
    assert again(run).status == Run.Status.COMPLETED
    assert addresses() == [DANA] * 5
    assert len({link_in(message) for message in mail.outbox}) == 5


def test_telling_again_mails_nobody_twice() -> None:
    workflows.whom[:] = [DANA, "eve@example.com"]
    workflows.asking.start()
    notify = email_reviewers(workflows.whom)
    for _ in range(3):
        notify(Hook.objects.get().token)
    assert addresses() == [DANA, "eve@example.com"]


def test_turn_killed_right_after_telling_mails_once(killed: Any, monkeypatch: Any, visitor: Visitor) -> None:
    from django_stephooks.services import links

    send = links.send_links

    def and_be_killed(*args: Any) -> None:
        send(*args)
        killed()

    monkeypatch.setattr(links, "send_links", and_be_killed)
    with pytest.raises(Killed):
        workflows.asking.start()
    monkeypatch.setattr(links, "send_links", send)
    sweep(now=timezone.now() + timedelta(minutes=5))
    assert addresses() == [DANA]
    visitor.decide(link_in(mail.outbox[0]))
    assert Hook.objects.get().status == Hook.Status.RECEIVED


def test_worker_killed_right_after_the_mail_does_not_send_it_again(server: Any, killed: Any) -> None:
    server.after.append(killed)
    with pytest.raises(Killed):
        send_links(HookFactory(), [DANA])
    server.after.clear()
    assert addresses() == [DANA]
    assert sweep(now=timezone.now() + timedelta(minutes=5)).recovered == 1
    assert addresses() == [DANA]
    assert mail_run().status == Run.Status.FAILED
    assert "may have been sent" in mail_run().error["message"]
    # It did not arrive, somebody says.
    retry_run(mail_run(), by="the postmaster")
    assert addresses() == [DANA, DANA]
    assert mail_run().status == Run.Status.COMPLETED


def test_server_that_refuses_is_tried_again_later(server: Any, clock: Clock) -> None:
    def refuse() -> None:
        raise ConnectionRefusedError("The mail server is away.")

    server.before.append(refuse)
    run = workflows.asking.start()
    assert again(run).status == Run.Status.SUSPENDED
    assert mail.outbox == []
    server.before.clear()
    clock.advance("1m")
    sweep()
    assert addresses() == [DANA]
    assert mail_run().result == {"sent": True, "why": ""}


def test_server_that_refuses_for_a_day_is_a_failure_that_shows(server: Any, clock: Clock) -> None:
    def refuse() -> None:
        raise ConnectionRefusedError("The mail server is away.")

    server.before.append(refuse)
    run = workflows.asking.start()
    for _ in DELAYS:
        clock.advance("3h")
        sweep()
    assert mail_run().status == Run.Status.FAILED
    assert "away" in mail_run().error["message"]
    # The question is still asked, in the admin.
    assert again(run).status == Run.Status.SUSPENDED


def test_backend_that_sends_nothing_is_no_success(monkeypatch: Any) -> None:
    monkeypatch.setattr(Unsteady, "send_messages", lambda self, messages: 0)
    send_links(HookFactory(), [DANA])
    assert mail_run().status == Run.Status.SUSPENDED


def test_server_that_hangs_up_rudely_has_the_mail_all_the_same(monkeypatch: Any) -> None:
    def rude(self: Any) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(Unsteady, "close", rude)
    send_links(HookFactory(), [DANA])
    assert mail_run().result == {"sent": True, "why": ""}


def test_hanging_server_holds_no_turn_that_asks(server: Any) -> None:
    seen: list[str] = []

    def hang() -> None:
        # While the server hangs, the run that asked is settled and waits for its answer.
        asked = Run.objects.exclude(workflow=SEND).get()
        seen.append(asked.status)
        seen.append(Hook.objects.get().status)

    server.before.append(hang)
    workflows.asking.start()
    assert seen == [Run.Status.SUSPENDED, Hook.Status.PENDING]


def test_answered_before_the_mails_turn_comes_is_not_mailed(server: Any, clock: Clock) -> None:
    def refuse() -> None:
        raise ConnectionRefusedError

    server.before.append(refuse)
    workflows.asking.start()
    resume_hook(Hook.objects.get().token, {"approved": True}, by="dana")
    server.before.clear()
    clock.advance("1m")
    sweep()
    assert mail.outbox == []
    assert mail_run().result["sent"] is False
    assert "already answered by dana" in mail_run().result["why"]


def test_hook_that_is_gone_or_over_is_not_mailed(server: Any, clock: Clock) -> None:
    def refuse() -> None:
        raise ConnectionRefusedError

    server.before.append(refuse)
    pruned, over = HookFactory(), HookFactory()
    for hook in (pruned, over):
        send_links(hook, [DANA])
    gone = mail_runs(pruned).get()
    cancel_run(over.run)
    pruned.run.delete()
    server.before.clear()
    clock.advance("1m")
    sweep()
    assert mail.outbox == []
    assert "does not exist" in again(gone).result["why"]
    assert "no longer asked" in mail_runs(over).get().result["why"]


def test_mail_has_a_queue_of_its_own_if_the_site_says_so(configure: Any) -> None:
    configure(MAIL_QUEUE="slow")
    run = workflows.asking.start()
    assert (run.queue, mail_run().queue) == ("default", "slow")


def test_no_run_holds_a_link_or_a_token(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    workflows.asking.start()
    token = link_in(mail.outbox[0]).removeprefix("/review/")
    secrets = (token, Hook.objects.get().token, token[-22:])
    rows = [*Run.objects.values(), *Event.objects.values()]
    for secret in secrets:
        assert secret not in repr(rows)
        assert secret not in caplog.text


# New links


def test_new_links_replace_the_old_ones(visitor: Visitor) -> None:
    dana = UserFactory(username="dana", reviewer=True)
    eve = UserFactory(email="eve@example.com", reviewer=True)
    workflows.whom[:] = [DANA, eve]
    workflows.asking.start()
    old = [link_in(message) for message in mail.outbox]
    mail.outbox.clear()
    hook = Hook.objects.get()
    assert len(send_new_links(hook, by=dana)) == 2
    assert addresses() == [DANA, "eve@example.com"]
    assert "do not work any more" in mail.outbox[0].body
    assert {visitor.open(path).status_code for path in old} == {410}
    event = Event.objects.get(type=Event.Type.LINKS_REVOKED)
    assert event.data == {"by": "dana", "by_id": dana.pk, "sent_again": 2}
    assert visitor.decide(link_in(mail.outbox[0])).status_code == 200
    # Eve's is still the link of an account.
    eve_link = next(link_in(message) for message in mail.outbox if message.to == ["eve@example.com"])
    eve.is_active = False
    eve.save()
    assert visitor.open(eve_link).status_code == 403


def test_new_links_may_be_sent_again_and_again() -> None:
    workflows.asking.start()
    for _ in range(3):
        send_new_links(Hook.objects.get())
    assert addresses() == [DANA] * 4
    assert len({link_in(message) for message in mail.outbox}) == 4


def test_mail_that_waited_while_links_were_revoked_is_not_sent(server: Any, clock: Clock) -> None:
    def refuse() -> None:
        raise ConnectionRefusedError

    server.before.append(refuse)
    hook = HookFactory()
    send_links(hook, [DANA])
    server.before.clear()
    send_new_links(hook)
    assert addresses() == [DANA]
    clock.advance("1m")
    sweep()
    assert addresses() == [DANA]
    assert "revoked" in mail_runs(hook).first().result["why"]


def test_new_links_can_be_sent_after_the_key_was_rotated(settings: Any, visitor: Visitor) -> None:
    workflows.asking.start()
    settings.SECRET_KEY = "a-new-key-for-the-tests"
    assert visitor.open(link_in(mail.outbox[0])).status_code == 404
    send_new_links(Hook.objects.get())
    assert visitor.decide(link_in(mail.outbox[1])).status_code == 200


@pytest.mark.parametrize("change", [send_new_links, revoke_links])
def test_links_to_what_is_over_are_not_changed(change: Any) -> None:
    from django_stephooks import HookAlreadyReceivedError

    workflows.asking.start()
    resume_hook(Hook.objects.get().token, 1)
    with pytest.raises(HookAlreadyReceivedError):
        change(Hook.objects.get())
    assert addresses() == [DANA]


@pytest.mark.parametrize("change", [send_new_links, revoke_links])
def test_changing_links_takes_the_permission(change: Any) -> None:
    from django_stephooks.exceptions import NotAllowedError

    workflows.asking.start()
    with pytest.raises(NotAllowedError):
        change(Hook.objects.get(), by=UserFactory())
    assert Hook.objects.get().token_version == 1
    assert addresses() == [DANA]


def test_new_links_for_nobody_is_an_error_and_revokes_nothing() -> None:
    from django_stephooks.exceptions import RunStateError

    hook = HookFactory()
    with pytest.raises(RunStateError, match="Nobody was mailed"):
        send_new_links(hook)
    assert again(hook).token_version == 1


def test_login_page_is_not_needed_to_read_a_mail_link(visitor: Visitor) -> None:
    workflows.asking.start()
    assert Client().get(link_in(mail.outbox[0])).status_code == 200
