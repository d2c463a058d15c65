"""The page of a link: opening decides nothing, pressing a button decides once, and it is always kind."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pydantic
import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse

from django_stephooks.links import make_link_token
from django_stephooks.models import Event, Hook, Run
from django_stephooks.models.statements import Statements
from django_stephooks.services.digest import digest_of
from django_stephooks.services.hooks import resume_hook
from django_stephooks.services.links import revoke_links
from tests.clock import Clock
from tests.factories import HookFactory, UserFactory
from tests.review.visiting import DANA, Page, Visitor, again, path_of, text_of

pytestmark = pytest.mark.django_db

EVIL = "<script>alert(1)</script>"

SCANNERS = [
    "Mozilla/5.0 (compatible; Microsoft Defender for Office 365)",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) BingPreview/1.0b",
    "Proofpoint URL Defense",
    "Barracuda Sentinel (EE)",
    "Mimecast-URL-Protection",
    "Slackbot-LinkExpanding 1.0",
    "GoogleImageProxy",
    "facebookexternalhit/1.1",
    "curl/8.5",
    "",
]


class Verdict(pydantic.BaseModel):
    score: int


class Review(pydantic.BaseModel):
    approved: bool
    score: int
    reviewer: str


def state_of_all() -> list[Any]:
    return [
        list(Hook.objects.order_by("pk").values()),
        list(Run.objects.order_by("pk").values()),
        list(Event.objects.order_by("pk").values()),
    ]


@pytest.mark.django_db(transaction=True)
def test_scanners_change_nothing_and_a_person_then_decides(visitor: Visitor, configure: Any) -> None:
    configure(LINK_THROTTLE=None)
    hook = HookFactory()
    path = path_of(hook)
    before = state_of_all()
    for agent in SCANNERS:
        scanner = Client(headers={"user-agent": agent}, enforce_csrf_checks=True)
        for address in (path, f"{path}?utm_source=mail", f"{path}."):
            assert scanner.head(address).status_code == 200
            assert scanner.get(address).status_code == 200
            assert scanner.options(address).status_code == 200
            for method in ("put", "patch", "delete", "trace"):
                assert getattr(scanner, method)(address).status_code == 405
        # What looks like a button may be opened too.
        scanner.get(f"{path}?decision=approve&stamp={Page(scanner.get(path)).fields['stamp']}")
        assert not scanner.cookies
    assert state_of_all() == before
    assert visitor.decide(path).status_code == 200
    assert again(hook).payload == {"approved": True, "comment": "", "reviewer": DANA}
    assert again(hook.run).status == Run.Status.COMPLETED


@pytest.mark.parametrize(("decision", "approved"), [("approve", True), ("reject", False)])
def test_answer_is_stored_as_that_of_the_link(visitor: Visitor, decision: str, approved: bool) -> None:
    UserFactory(username="dana", email=DANA)
    hook = HookFactory(title="Publish 'Fog'?")
    page = visitor.open(path_of(hook))
    assert page.status_code == 200
    assert "Publish 'Fog'?" in text_of(page)
    response = visitor.press(page, decision, comment=" Well. ")
    assert response.status_code == 200
    assert f"You {'approved' if approved else 'rejected'} this." in text_of(response)
    assert again(hook).payload == {"approved": approved, "comment": "Well.", "reviewer": DANA}
    assert (hook.answered_by_label, hook.answered_by, hook.channel) == (
        f"link sent to {DANA}",
        None,
        "link",
    )
    event = hook.run.events.get(type=Event.Type.HOOK_RECEIVED)
    assert event.data["seen"] == digest_of(hook)
    assert event.data["link"] == DANA


def test_page_needs_no_cookie_and_sets_none(visitor: Visitor) -> None:
    hook = HookFactory()
    response = visitor.decide(path_of(hook))
    assert again(hook).status == Hook.Status.RECEIVED
    assert not visitor.client.cookies
    assert "Cookie" not in response.get("Vary", "")


def test_two_buttons_neither_preselected_and_enter_presses_none(visitor: Visitor) -> None:
    page = Page(visitor.open(path_of(HookFactory())))
    assert page.buttons == ["approve", "reject"]
    assert page.scripts == 0
    # Enter presses a form's first button: one that is disabled.
    assert page.pressed_by_enter is not None
    assert "disabled" in page.pressed_by_enter
    assert "decision" not in page.fields


def test_page_has_nothing_from_elsewhere(visitor: Visitor) -> None:
    page = Page(visitor.open(path_of(HookFactory())))
    assert page.addresses
    assert all(address.startswith(("/", "data:")) for address in page.addresses), page.addresses


@pytest.mark.parametrize("kind", ["waiting", "junk", "expired"])
def test_every_page_is_private(visitor: Visitor, kind: str) -> None:
    path = {
        "waiting": lambda: path_of(HookFactory()),
        "junk": lambda: "/review/nothing",
        "expired": lambda: path_of(HookFactory(expired=True)),
    }[kind]()
    response = visitor.open(path)
    assert response["Cache-Control"] == "no-store"
    assert response["Referrer-Policy"] == "same-origin"
    assert "noindex" in response["X-Robots-Tag"]
    assert response["X-Frame-Options"] == "DENY"
    assert "frame-ancestors 'none'" in response["Content-Security-Policy"]


def test_static_files_elsewhere_are_allowed_by_the_policy(visitor: Visitor, settings: Any) -> None:
    settings.STATIC_URL = "https://static.example.com/"
    assert "https://static.example.com" in visitor.open("/review/")["Content-Security-Policy"]


def test_what_is_shown_is_escaped(visitor: Visitor) -> None:
    hook = HookFactory(title=EVIL, description=EVIL, context={EVIL: [EVIL], "before": EVIL, "after": EVIL})
    response = visitor.open(path_of(hook))
    assert EVIL.encode() not in response.content
    assert EVIL in text_of(response)


def test_values_that_no_page_can_print_do_not_break_it(visitor: Visitor) -> None:
    hook = HookFactory(context={"nul": "\x00", "lone": "\ud800"})
    assert visitor.open(path_of(hook)).status_code == 200


def test_rejecting_needs_a_comment_and_what_is_invalid_burns_nothing(visitor: Visitor) -> None:
    hook = HookFactory()
    page = visitor.open(path_of(hook))
    refused = visitor.press(page, "reject", comment="  ")
    assert refused.status_code == 400
    assert "Say why" in text_of(refused)
    assert again(hook).status == Hook.Status.PENDING
    assert visitor.press(refused, "reject", comment="The numbers are wrong.").status_code == 200
    assert again(hook).payload["comment"] == "The numbers are wrong."


def test_invalid_input_keeps_what_was_typed(visitor: Visitor) -> None:
    hook = HookFactory()
    page = visitor.open(path_of(hook))
    fields = {**Page(page).fields, "comment": "A long thought."}
    response = visitor.client.post(path_of(hook), fields)  # without a button
    assert response.status_code == 400
    assert Page(response).fields["comment"].strip() == "A long thought."


@pytest.mark.parametrize("comment", ["\x00", "x\x00y"])
def test_nul_in_a_comment_is_refused_beside_the_field(visitor: Visitor, comment: str) -> None:
    hook = HookFactory()
    assert visitor.decide(path_of(hook), comment=comment).status_code == 400
    assert again(hook).status == Hook.Status.PENDING


def test_comment_larger_than_a_payload_may_be_is_refused_beside_the_field(
    visitor: Visitor, configure: Any
) -> None:
    configure(MAX_PAYLOAD_BYTES=500)
    hook = HookFactory()
    response = visitor.decide(path_of(hook), comment="x" * 600)
    assert response.status_code == 400
    assert "MAX_PAYLOAD_BYTES" in text_of(response)
    assert again(hook).status == Hook.Status.PENDING


def test_used_link_shows_the_decision_and_no_buttons(visitor: Visitor) -> None:
    hook = HookFactory()
    visitor.decide(path_of(hook), "reject", comment="Too long.")
    response = visitor.open(path_of(hook))
    assert response.status_code == 410
    assert f"Already rejected by link sent to {DANA}" in text_of(response)
    assert "Too long." in text_of(response)
    assert Page(response).buttons == []


def test_decided_in_the_admin_meanwhile_shows_who_was_first_and_what_was_typed(visitor: Visitor) -> None:
    dana = UserFactory(username="dana", reviewer=True)
    hook = HookFactory()
    page = visitor.open(path_of(hook, "carl@example.com"))
    resume_hook(hook.token, {"approved": False, "comment": "No."}, by=dana, channel="admin")
    response = visitor.press(page, comment="Looks fine to me.")
    assert response.status_code == 410
    assert "Already rejected by dana" in text_of(response)
    assert Page(response).buttons == []
    assert Page(response).fields["typed"].strip() == "Looks fine to me."
    assert again(hook).payload["approved"] is False


def test_pressing_twice_counts_once(visitor: Visitor) -> None:
    hook = HookFactory()
    page = visitor.open(path_of(hook))
    assert visitor.press(page, "approve").status_code == 200
    assert visitor.press(page, "reject", comment="Oh no.").status_code == 410
    assert again(hook).payload["approved"] is True
    assert hook.run.events.filter(type=Event.Type.HOOK_RECEIVED).count() == 1


def test_two_recipients_have_their_own_links_and_the_first_one_decides(visitor: Visitor) -> None:
    hook = HookFactory()
    first, second = path_of(hook), path_of(hook, "eve@example.com")
    assert first != second
    visitor.decide(first)
    assert visitor.open(second).status_code == 410


def test_link_for_one_question_never_answers_another_of_the_same_name(visitor: Visitor) -> None:
    one = HookFactory()
    other = HookFactory(run=one.run, call="review:1/approve:2")
    visitor.decide(path_of(other))
    assert again(one).status == Hook.Status.PENDING
    assert again(other).status == Hook.Status.RECEIVED


@pytest.mark.parametrize(
    ("trait", "sentence"),
    [("expired", "deadline passed"), ("past_deadline", "deadline passed"), ("cancelled", "no longer asked")],
)
def test_question_that_is_over_is_told_so(visitor: Visitor, trait: str, sentence: str) -> None:
    hook = HookFactory(**{trait: True})
    response = visitor.open(path_of(hook))
    assert response.status_code == 410
    assert sentence in text_of(response)
    assert Page(response).buttons == []


def test_deadline_between_page_and_click(visitor: Visitor, clock: Clock) -> None:
    hook = HookFactory(expires_at=clock() + timedelta(hours=1))
    page = visitor.open(path_of(hook))
    clock.advance("2h")
    response = visitor.press(page, comment="Late.")
    assert response.status_code == 410
    assert "deadline passed" in text_of(response)
    assert Page(response).fields["typed"].strip() == "Late."


def test_overdue_question_can_still_be_answered(visitor: Visitor) -> None:
    hook = HookFactory(overdue=True)
    assert visitor.decide(path_of(hook)).status_code == 200
    assert again(hook).status == Hook.Status.RECEIVED


def test_revoked_link_is_told_so(visitor: Visitor) -> None:
    hook = HookFactory()
    path = path_of(hook)
    page = visitor.open(path)
    revoke_links(hook)
    assert visitor.open(path).status_code == 410
    assert "revoked" in text_of(visitor.press(page))
    assert again(hook).status == Hook.Status.PENDING
    assert visitor.decide(path_of(hook)).status_code == 200


def test_link_revoked_at_the_very_moment_of_the_click(visitor: Visitor, monkeypatch: Any) -> None:
    from django_stephooks.review import views

    hook = HookFactory()
    page = visitor.open(path_of(hook))

    def too_late(*args: Any, **kwargs: Any) -> None:
        revoke_links(hook)
        resume_hook(*args, **kwargs)

    monkeypatch.setattr(views, "resume_hook", too_late)
    assert visitor.press(page).status_code in (404, 410)
    assert again(hook).status == Hook.Status.PENDING


def test_link_to_a_question_that_was_pruned_is_a_kind_404(visitor: Visitor) -> None:
    hook = HookFactory()
    path = path_of(hook)
    hook.run.delete()
    response = visitor.open(path)
    assert response.status_code == 404
    assert "This link does not work" in text_of(response)


@pytest.mark.parametrize(
    "end", [".", ")", ">", "=3D", "%0A", "%3E", "%253E", "/", "//", "%20", "%E2%80%9D", "?fbclid=1", "%3D"]
)
def test_what_a_mail_program_adds_to_a_link_does_no_harm(visitor: Visitor, end: str) -> None:
    hook = HookFactory()
    page = visitor.open(f"{path_of(hook)}{end}")
    assert page.status_code == 200
    # The form goes to the link as it was sent.
    assert path_of(hook) in Page(page).addresses
    assert visitor.press(page, path=path_of(hook)).status_code == 200


def test_answer_posted_to_the_mangled_link_counts_too(visitor: Visitor) -> None:
    hook = HookFactory()
    assert visitor.press(visitor.open(f"{path_of(hook)}."), path=f"{path_of(hook)}.").status_code == 200


@pytest.mark.parametrize("length", range(0, 60, 7))
def test_link_cut_short_is_a_kind_404(visitor: Visitor, length: int) -> None:
    token = make_link_token(HookFactory(), DANA)
    response = visitor.open(f"/review/{token[:length]}")
    assert response.status_code == 404
    assert "ask for a new link" in text_of(response)


@pytest.mark.parametrize(
    "text",
    [
        "%00",
        "%FF%FE",
        "..%2f..",
        "%",
        "x" * 5000,
        "é" * 100,
        "<script>",
        "http:%2F%2Fx",
        "%ED%A0%80",
        "a/b/c",
    ],
)
def test_any_junk_is_a_404(visitor: Visitor, text: str) -> None:
    assert visitor.open(f"/review/{text}").status_code == 404
    assert visitor.client.post(f"/review/{text}", {"decision": "approve"}).status_code == 404


def test_link_in_capitals_is_a_404_and_a_host_in_capitals_works(visitor: Visitor, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["testserver"]
    hook = HookFactory()
    assert visitor.open(path_of(hook).upper().replace("/REVIEW/", "/review/")).status_code == 404
    page = visitor.client.get(path_of(hook), headers={"host": "TESTSERVER"})
    assert page.status_code == 200
    fields = {**Page(page).fields, "decision": "approve"}
    posted = visitor.client.post(
        path_of(hook), fields, headers={"host": "TESTSERVER", "origin": "http://testserver"}
    )
    assert posted.status_code == 200


def test_wrapped_by_a_safe_link_service(visitor: Visitor) -> None:
    from urllib.parse import quote

    hook = HookFactory()
    wrapped = quote(f"https://testserver{path_of(hook)}?data=05%7C02", safe="")
    assert visitor.open(f"/review/{wrapped}").status_code == 200


@pytest.mark.parametrize("rotate", ["with", "without"])
def test_rotated_secret_key(visitor: Visitor, settings: Any, rotate: str) -> None:
    hook = HookFactory()
    path = path_of(hook)
    page = visitor.open(path)
    old, settings.SECRET_KEY = settings.SECRET_KEY, "a-new-key-for-the-tests"
    settings.SECRET_KEY_FALLBACKS = [old] if rotate == "with" else []
    expected = 200 if rotate == "with" else 404
    assert visitor.press(page).status_code == expected
    assert (again(hook).status == Hook.Status.RECEIVED) is (rotate == "with")
    if rotate == "without":
        assert visitor.decide(path_of(hook)).status_code == 200


def test_what_changed_since_the_page_was_opened_is_shown_again(visitor: Visitor) -> None:
    hook = HookFactory(title="Pay 10?")
    page = visitor.open(path_of(hook))
    Hook.objects.filter(pk=hook.pk).update(title="Pay 1000?")
    response = visitor.press(page, comment="Fine.")
    assert response.status_code == 409
    assert "Pay 1000?" in text_of(response)
    assert "has changed" in text_of(response)
    assert Page(response).fields["comment"].strip() == "Fine."
    assert again(hook).status == Hook.Status.PENDING
    assert visitor.press(response).status_code == 200


def test_schema_that_the_answer_does_not_fit_burns_nothing(visitor: Visitor) -> None:
    hook = HookFactory(schema=f"{__name__}:Verdict")
    page = visitor.open(path_of(hook))
    (button,) = Page(page).buttons
    refused = visitor.press(page, button, score="many")
    assert refused.status_code == 400
    assert Page(refused).fields["score"] == "many"
    assert again(hook).status == Hook.Status.PENDING
    assert visitor.press(refused, button, score="5").status_code == 200
    assert again(hook).payload == {"score": 5}


def test_schema_with_a_verdict_has_the_two_buttons_and_knows_the_reviewer(visitor: Visitor) -> None:
    hook = HookFactory(schema=f"{__name__}:Review")
    page = visitor.open(path_of(hook))
    assert Page(page).buttons == ["approve", "reject"]
    assert visitor.press(page, "reject", score="2").status_code == 200
    assert again(hook).payload == {"approved": False, "score": 2, "reviewer": DANA}


def test_schema_that_is_gone_is_said_kindly_and_burns_nothing(
    visitor: Visitor, caplog: pytest.LogCaptureFixture
) -> None:
    hook = HookFactory(schema=f"{__name__}:Gone")
    page = visitor.open(path_of(hook))
    response = visitor.press(page, *Page(page).buttons, answer='{"score": 5}')
    assert response.status_code == 503
    assert "nothing was stored" in text_of(response)
    assert "Gone can not be loaded" in caplog.text
    assert again(hook).status == Hook.Status.PENDING


def test_answered_by_somebody_else_at_the_very_moment_of_the_click(
    visitor: Visitor, monkeypatch: Any
) -> None:
    from django_stephooks.review import views

    hook = HookFactory()
    page = visitor.open(path_of(hook))

    def too_late(*args: Any, **kwargs: Any) -> None:
        resume_hook(hook.token, {"approved": False, "comment": "No."}, by="carl")
        resume_hook(*args, **kwargs)

    monkeypatch.setattr(views, "resume_hook", too_late)
    response = visitor.press(page, comment="My words.")
    assert response.status_code == 410
    assert "Already rejected by carl" in text_of(response)
    assert Page(response).fields["typed"].strip() == "My words."


# Who may answer by link


def refused_at(visitor: Visitor, hook: Hook, path: str) -> str:
    """The page is refused, shows nothing of the question, and a POST to it decides nothing."""
    response = visitor.open(path)
    assert response.status_code == 403
    assert str(hook) not in text_of(response)
    assert visitor.client.post(path, {"decision": "approve"}).status_code == 403
    assert again(hook).status == Hook.Status.PENDING
    return text_of(response)


def test_address_that_is_not_among_the_reviewers_is_refused(visitor: Visitor) -> None:
    hook = HookFactory(reviewers=["email:dana@example.com"])
    assert "other reviewers" in refused_at(visitor, hook, path_of(hook, "eve@example.com"))
    assert visitor.decide(path_of(hook, "Dana@Example.com")).status_code == 200


def test_reviewers_may_be_given_as_users_and_groups(visitor: Visitor) -> None:
    desk = Group.objects.create(name="desk")
    dana, carl = UserFactory(email=DANA), UserFactory(email="carl@example.com")
    carl.groups.add(desk)
    hook = HookFactory(reviewers=[f"user:{dana.pk}", f"group:{desk.pk}"])
    assert "other reviewers" in refused_at(visitor, hook, path_of(hook, "eve@example.com"))
    assert visitor.open(path_of(hook, "carl@example.com")).status_code == 200
    assert visitor.open(path_of(hook, DANA)).status_code == 200


def test_reviewer_who_left_the_group_is_refused(visitor: Visitor) -> None:
    desk = Group.objects.create(name="desk")
    carl = UserFactory(email="carl@example.com")
    hook = HookFactory(reviewers=[f"group:{desk.pk}"])
    assert "other reviewers" in refused_at(visitor, hook, path_of(hook, carl.email))


@pytest.mark.parametrize("given_as", ["user", "address"])
def test_link_of_a_deactivated_user_is_refused(visitor: Visitor, given_as: str) -> None:
    dana = UserFactory(email="Dana@example.com", reviewer=True)
    hook = HookFactory()
    path = path_of(hook, DANA, user_id=str(dana.pk) if given_as == "user" else "")
    page = visitor.open(path)
    assert page.status_code == 200
    dana.is_active = False
    dana.save()
    assert visitor.press(page).status_code == 403
    assert "not active" in refused_at(visitor, hook, path)


def test_link_of_a_deleted_user_is_refused(visitor: Visitor) -> None:
    dana = UserFactory(email=DANA, reviewer=True)
    hook = HookFactory()
    path = path_of(hook, user_id=str(dana.pk))
    dana.delete()
    refused_at(visitor, hook, path)


def test_link_of_an_account_of_another_kind_is_refused(visitor: Visitor) -> None:
    hook = HookFactory()
    refused_at(visitor, hook, path_of(hook, user_id="0b9a1f6e-7c0c-4b6e-9a6f-0d8c1f2e3a4b"))


def test_one_active_account_of_an_address_is_enough(visitor: Visitor) -> None:
    UserFactory(email=DANA, is_active=False)
    UserFactory(email=DANA)
    hook = HookFactory()
    assert visitor.decide(path_of(hook)).status_code == 200


def test_link_of_a_user_gives_no_more_than_their_permissions(visitor: Visitor) -> None:
    dana = UserFactory(email=DANA)
    hook = HookFactory()
    assert "permission" in refused_at(visitor, hook, path_of(hook, user_id=str(dana.pk)))
    # Mailed to as an address, it is the link that is the permission.
    assert visitor.decide(path_of(hook)).status_code == 200


def test_permission_lost_between_page_and_click(visitor: Visitor) -> None:
    dana = UserFactory(email=DANA, reviewer=True)
    hook = HookFactory()
    page = visitor.open(path_of(hook, user_id=str(dana.pk)))
    assert page.status_code == 200
    dana.user_permissions.clear()
    assert visitor.press(page).status_code == 403
    assert again(hook).status == Hook.Status.PENDING


def test_permission_lost_at_the_very_moment_of_the_click(visitor: Visitor, monkeypatch: Any) -> None:
    from django_stephooks.services import hooks as service

    hook = HookFactory(reviewers=None)
    page = visitor.open(path_of(hook))
    statements = service.statements

    def reassigned(alias: str) -> Statements:
        Hook.objects.filter(pk=hook.pk).update(reviewers=["email:eve@example.com"])
        return statements(alias)

    monkeypatch.setattr(service, "statements", reassigned)
    assert visitor.press(page).status_code == 403
    assert again(hook).status == Hook.Status.PENDING


@pytest.mark.parametrize("given_as", ["user", "address"])
def test_whoever_started_the_run_is_refused_unless_allowed(
    visitor: Visitor, configure: Any, given_as: str
) -> None:
    dana = UserFactory(email="Dana@Example.com", reviewer=True)
    hook = HookFactory(run__started_by=dana)
    path = path_of(hook, user_id=str(dana.pk) if given_as == "user" else "")
    assert "started the run" in refused_at(visitor, hook, path)
    configure(ALLOW_SELF_REVIEW=True)
    assert visitor.decide(path).status_code == 200


def test_other_account_with_the_starters_address_is_refused(visitor: Visitor) -> None:
    dana = UserFactory(email=DANA)
    second = UserFactory(email=DANA, reviewer=True)
    hook = HookFactory(run__started_by=dana)
    refused_at(visitor, hook, path_of(hook, user_id=str(second.pk)))


def test_run_that_nobody_started_is_nobodys_own(visitor: Visitor) -> None:
    hook = HookFactory(run__started_by=None)
    assert visitor.decide(path_of(hook)).status_code == 200


def test_long_address_is_cut_where_it_is_stored_as_who_answered(visitor: Visitor) -> None:
    address = f"dana@{'.'.join(['department'] * 21)}.example"
    hook = HookFactory()
    assert visitor.decide(path_of(hook, address)).status_code == 200
    assert len(again(hook).answered_by_label) == 200
    assert hook.payload["reviewer"] == address


def test_reverse_of_a_link_ends_with_its_token() -> None:
    # A slash at the end would be lost in some mail programs.
    assert reverse("django_stephooks:review", args=["abc"]) == "/review/abc"
