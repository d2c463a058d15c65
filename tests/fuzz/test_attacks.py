"""What somebody would try by hand who knows how the desk is made."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any
from unittest.mock import patch

import pytest
from django.contrib.auth.models import Group
from django.contrib.contenttypes.models import ContentType
from django.core import mail
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from django_stephooks import resume_hook, tokens
from django_stephooks.codec import Encoded
from django_stephooks.engine.worker import work
from django_stephooks.exceptions import InvalidTokenError
from django_stephooks.links import check_link, make_link_token, read_link_token
from django_stephooks.mail import email_reviewers
from django_stephooks.models import Event, Hook, Run
from django_stephooks.review import diff
from tests.admin import pages
from tests.factories import ArticleFactory, EventFactory, HookFactory, RunFactory, UserFactory
from tests.review.visiting import DANA, Page, path_of

pytestmark = pytest.mark.django_db

EVIL = "evil.example"


def browser_of(user: Any, **options: Any) -> Client:
    client = Client(**options)
    client.force_login(user)
    return client


def api(page: str, *args: Any) -> str:
    return reverse(f"stephooks-api:{page}", args=args)


def is_waiting(*hooks: Hook) -> bool:
    return all(Hook.objects.get(pk=hook.pk).status == Hook.Status.PENDING for hook in hooks)


@pytest.fixture
def reviewer(db: None) -> Any:
    return UserFactory(username="dana", email=DANA, reviewer=True)


@pytest.fixture
def onlooker(db: None) -> Any:
    """Staff who may look at everything, and do nothing."""
    return UserFactory(staff=True, permissions=["view_hook", "view_run"])


# --- privilege ---


def test_looking_is_all_that_view_permissions_allow(onlooker: Any) -> None:
    hook = HookFactory()
    failed = RunFactory(failed=True)
    seen = Page(browser_of(onlooker).get(pages.address(hook))).fields
    form = {**seen, "decision": "approve", "comment": "x", "reason": "x"}
    body = json.dumps({"payload": {"approved": True}})
    for address, sent in (
        (pages.address(hook, "answer"), form),
        (pages.address(hook, "links"), form),
        (pages.address(hook), form),
        (pages.address(hook, "delete"), {"post": "yes"}),
        (pages.address(hook.run, "cancel"), form),
        (pages.address(failed, "retry"), form),
        (f"{pages.HOOKS}add/", form),
        (f"{pages.HOOKS}bulk/", form),
    ):
        assert browser_of(onlooker).post(address, sent).status_code == 403, address
    for address in (
        api("approve", hook.public_id),
        api("reject", hook.public_id),
        api("resume", hook.public_id),
        api("cancel", hook.run.public_id),
        api("retry", failed.public_id),
        api("start", "tests.app.workflows.publish"),
    ):
        response = browser_of(onlooker).post(address, body, content_type="application/json")
        assert response.status_code == 403, address
    # An action that is not offered is no action.
    browser_of(onlooker).post(pages.HOOKS, {"action": "approve_selected", "_selected_action": [hook.pk]})
    assert is_waiting(hook)
    assert Run.objects.count() == 2
    failed.refresh_from_db()
    assert failed.status == Run.Status.FAILED


def test_no_page_gives_away_a_token(onlooker: Any) -> None:
    hook = HookFactory()
    for address in (
        pages.HOOKS,
        pages.address(hook),
        pages.address(hook.run),
        api("hooks"),
        api("hook", hook.public_id),
        api("run", hook.run.public_id),
        api("events", hook.run.public_id),
    ):
        content = browser_of(onlooker).get(address).content.decode()
        assert hook.token not in content
        assert make_link_token(hook, DANA) not in content


def test_tracebacks_are_for_those_who_look_after_runs(reviewer: Any, onlooker: Any) -> None:
    hook = HookFactory()
    error = {"type": "a:B", "message": "m", "args": ("m",), "traceback": "File settings.py: KEY = 's3cret'"}
    EventFactory(
        run=hook.run,
        type=Event.Type.STEP_RETRYING,
        call="review:1",
        data={"attempt": 1, "due_at": timezone.now(), "error": error},
    )
    assert "s3cret" not in browser_of(reviewer).get(pages.address(hook)).content.decode()
    assert "s3cret" in browser_of(onlooker).get(pages.address(hook)).content.decode()
    assert "s3cret" not in browser_of(onlooker).get(api("events", hook.run.public_id)).content.decode()


@pytest.mark.parametrize(
    ("rows", "lookup"),
    [
        ("hook", "run__started_by__password__startswith"),
        ("hook", "answered_by__password__contains"),
        ("hook", "answered_by__email"),
        ("hook", "payload"),
        ("hook", "payload__isnull"),
        ("hook", "reviewers__contains"),
        ("hook", "token_version__gte"),
        ("hook", "title__regex"),
        ("hook", "run__arguments__contains"),
        ("hook", "run__workflow__regex"),
        ("run", "started_by__password__startswith"),
        ("run", "started_by__email__startswith"),
        ("run", "arguments"),
        ("run", "arguments__contains"),
        ("run", "events__data__contains"),
        ("run", "key__iregex"),
        ("run", "status__regex"),
    ],
)
def test_a_list_answers_no_questions_about_what_its_filters_do_not_offer(
    onlooker: Any, rows: str, lookup: str
) -> None:
    HookFactory(received=True)
    response = browser_of(onlooker).get(f"/admin/django_stephooks/{rows}/", {lookup: "(a|a)*b"})
    assert response.status_code == 400


def test_lists_have_nothing_to_be_completed_or_sorted_by_but_their_columns(reviewer: Any) -> None:
    HookFactory()
    client = browser_of(reviewer)
    for field in ("started_by", "run", "answered_by"):
        asked = {"app_label": "django_stephooks", "model_name": "hook", "field_name": field, "term": "a"}
        assert client.get(reverse("admin:autocomplete"), asked).status_code == 403
    for order in ("payload", "99", "-token_version", "run__started_by__password"):
        assert client.get(pages.HOOKS, {"o": order}).status_code == 200


# --- one question for another ---


def test_fields_of_one_question_do_not_answer_another(reviewer: Any) -> None:
    shown, other = HookFactory(title="Harmless"), HookFactory(title="Pay a million")
    client = browser_of(reviewer)

    fields = Page(client.get(pages.address(shown))).fields
    client.post(pages.address(other, "answer"), {**fields, "decision": "approve"})
    stamped = Page(Client().get(path_of(shown))).fields
    Client().post(path_of(other), {**stamped, "decision": "approve"})
    seen = client.get(api("hook", shown.public_id)).json()["digest"]
    response = client.post(
        api("approve", other.public_id), json.dumps({"seen": seen}), content_type="application/json"
    )

    assert response.status_code == 409
    assert is_waiting(shown, other)


def test_a_link_of_one_person_carries_no_stamp_for_another() -> None:
    hook = HookFactory()
    stamped = Page(Client().get(path_of(hook))).fields
    response = Client().post(path_of(hook, "lou@example.com"), {**stamped, "decision": "approve"})
    assert response.status_code == 403
    assert is_waiting(hook)


def test_what_nobody_was_asked_for_is_not_taken(reviewer: Any) -> None:
    hook = HookFactory()
    client = browser_of(reviewer)
    more = {
        "status": "cancelled",
        "answered_by": 1,
        "channel": "python",
        "by": "the boss",
        "run": 7,
        "token_version": 9,
        "reviewer": "the boss",
        "approved": "false",
        "settled_at": "2000-01-01",
    }
    response = client.post(
        api("approve", hook.public_id), json.dumps({"comment": "x", **more}), content_type="application/json"
    )
    assert response.status_code == 400
    assert is_waiting(hook)

    fields = Page(client.get(pages.address(hook))).fields
    client.post(pages.address(hook, "answer"), {**fields, **more, "decision": "approve", "comment": "x"})

    hook.refresh_from_db()
    assert hook.payload == {"approved": True, "comment": "x", "reviewer": "dana"}
    assert (hook.answered_by, hook.channel, hook.token_version) == (reviewer, "admin", 1)


# --- addresses ---


@pytest.mark.parametrize("header", ["host", "x-forwarded-host", "x-forwarded-server", "forwarded"])
def test_mailed_links_lead_to_this_site_whatever_the_request_said(
    header: str, settings: Any, django_capture_on_commit_callbacks: Any
) -> None:
    """The request is one that makes links: an operator has new ones sent."""
    settings.USE_X_FORWARDED_HOST = True
    hook = HookFactory()
    email_reviewers([DANA])(hook.token)
    operator = browser_of(UserFactory(superuser=True))

    response = operator.post(pages.address(hook, "links"), {}, headers={header: EVIL})
    assert response.status_code == 302
    while work("default"):
        pass

    assert [message.to for message in mail.outbox] == [[DANA]]
    text = str(mail.outbox[0].message())
    assert EVIL not in text
    assert "https://testserver/review/" in mail.outbox[0].body


def test_no_answer_leads_to_another_site(reviewer: Any, settings: Any) -> None:
    addresses = []
    for name in ("next", "_changelist_filters", "redirect", "return"):
        for where in (f"https://{EVIL}/", f"//{EVIL}", f"javascript:alert('{EVIL}')", f"\\\\{EVIL}"):
            hook = HookFactory()
            client = browser_of(reviewer)
            fields = Page(client.get(pages.address(hook), {name: where})).fields
            sent = {**fields, name: where, "decision": "approve"}
            response = client.post(f"{pages.address(hook, 'answer')}?{name}={where}", sent)
            addresses.append(response["Location"])
    settings.STEPHOOKS = {**settings.STEPHOOKS, "LINK_REQUIRES_LOGIN": True}
    link = path_of(HookFactory())
    addresses.append(Client().get(f"{link}?next=https://{EVIL}/", headers={"host": "testserver"})["Location"])
    for address in addresses:
        assert re.match(r"/(admin|accounts)/", address), address
    assert EVIL not in addresses[-1]


@pytest.mark.parametrize(
    "path",
    [
        "/admin/django_stephooks/hook/../../auth/user/{pk}/answer/",
        "/admin/django_stephooks/hook/{pk}%2Fchange%2F..%2F{pk}/answer/",
        "/admin/django_stephooks/hook/{pk}%00/answer/",
        "/admin/django_stephooks/hook/{pk}_2E/answer/",
        "/api/stephooks/hooks/{id}/../{id}/approve/",
        "/api/stephooks/hooks/{id}%2F/approve/",
        "/api/stephooks/hooks/{ID}/approve/",
        "/api/stephooks/hooks/{{{id}}}/approve/",
        "/review/../review/{link}/..",
        "/review/{link}%2F..%2F{link}%00/../../admin/",
    ],
)
def test_a_path_that_goes_round_corners_decides_nothing(path: str) -> None:
    hook = HookFactory()
    public_id = str(hook.public_id)
    address = path.format(pk=hook.pk, id=public_id, ID=public_id.upper(), link=make_link_token(hook, DANA))
    response = browser_of(UserFactory(superuser=True)).post(address, {"decision": "approve"})
    assert response.status_code in (302, 400, 403, 404, 415)
    assert is_waiting(hook)


# --- what takes long ---


def test_texts_that_are_slow_to_compare_are_shown_without(
    reviewer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many stretches, none of them too long by itself: what all of a page may take is bounded."""
    looks = []

    class Counted(diff.BoundedMatcher):
        def find_longest_match(self, *place: Any) -> Any:
            found = super().find_longest_match(*place)
            looks.append(sum(len(self.b2j.get(word, ())) for word in self.a[place[0] : place[1]]))
            return found

    monkeypatch.setattr(diff, "BoundedMatcher", Counted)
    monkeypatch.setattr(diff, "MAX_LOOKS", 1_000_000)
    one, other = ("\n".join(f"{n}\n{words * 240}" for n in range(40)) for words in ("a b ", "b c a "))
    context = {"before": {"text": one, "more": one}, "after": {"text": other, "more": other}}

    response = browser_of(reviewer).get(pages.address(HookFactory(context=context)))

    assert response.status_code == 200
    assert 0 < sum(looks) <= diff.MAX_LOOKS


# --- what is kept ---


def test_nothing_is_kept_by_caches_on_the_way(onlooker: Any) -> None:
    hook = HookFactory()
    client = browser_of(onlooker)
    for address in (
        pages.HOOKS,
        pages.RUNS,
        pages.address(hook),
        pages.address(hook.run),
        path_of(hook),
        "/review/junk",
        api("hooks"),
        api("hook", hook.public_id),
        api("run", hook.run.public_id),
        api("events", hook.run.public_id),
        api("hooks") + "nothing/",
    ):
        assert "no-store" in client.get(address)["Cache-Control"], address
    token = api("resume-by-token", hook.token)
    assert "no-store" in client.post(token, "{}", content_type="application/json")["Cache-Control"]


def changed_at_its_end(token: str) -> str:
    return token[:-1] + ("A" if token[-1] != "A" else "B")


@pytest.mark.parametrize("kind", ["tokens", "links"])
def test_how_long_checking_takes_tells_nothing(kind: str, settings: Any) -> None:
    """Whatever is wrong with a token, and whichever key it is of, as much is computed and compared."""
    settings.SECRET_KEY_FALLBACKS = ["old", "older"]
    hook = HookFactory()

    def check(text: str) -> None:
        if kind == "tokens":
            tokens.check_token(text, hook.public_id, version=1)
        else:
            check_link(hook, read_link_token(text))

    right = hook.token if kind == "tokens" else make_link_token(hook, DANA)
    with patch(f"django_stephooks.{kind}.constant_time_compare", wraps=constant_time_compare) as compared:
        check(right)
        with pytest.raises(InvalidTokenError):
            check(changed_at_its_end(right))
    assert compared.call_count == 2 * 3


# --- markup ---

PROBE = "<xss-probe>'\"><img src=x xss-probe=1></script><script>xss-probe</script>{{ 7|add:1 }}%s"
ADDRESS = "javascript:alert(1)"


class Suspect(HTMLParser):
    """Markup that we did not write, and addresses that run something."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if "xss" in tag or any("xss" in name for name, _ in attrs):
            self.found.append(self.get_starttag_text() or tag)
        for name, value in attrs:
            if name in ("href", "src", "action", "formaction") and (value or "").strip().startswith("java"):
                self.found.append(f"{name}={value}")

    def handle_data(self, data: str) -> None:
        if self.cdata_elem and "xss" in data:
            self.found.append(data)


@pytest.fixture
def marked_run() -> Run:
    """Everything about it that somebody could have written is markup."""
    group = Group.objects.create(name=PROBE)
    user = UserFactory(username=PROBE, email="xss-probe@example.com")
    value = {PROBE: [PROBE, ADDRESS, {"url": ADDRESS, "html": PROBE}], "__html__": PROBE, "long": PROBE * 9}
    hook = HookFactory(
        title=PROBE,
        description=f"{PROBE}\n\n{ADDRESS}",
        context={"before": value, "after": {**value, "text": PROBE}, "link": ADDRESS, PROBE: PROBE},
        reviewers=[f"user:{user.pk}", f"group:{group.pk}", f"email:{PROBE}@example.com", f"email:{DANA}"],
        name=PROBE[:100],
        answered_by_label=PROBE,
        channel=PROBE[:20],
    )
    article = ArticleFactory(title=PROBE)
    error = {"type": PROBE, "message": PROBE, "args": (), "traceback": PROBE}
    Run.objects.filter(pk=hook.run.pk).update(
        workflow=PROBE, queue=PROBE[:100], key=PROBE, arguments=value, started_by=user, error=error,
        subject_type=ContentType.objects.get_for_model(article), subject_id=str(article.pk),
    )  # fmt: skip
    for type, data in (
        (Event.Type.STEP_RETRYING, {"attempt": 1, "due_at": timezone.now(), "error": error}),
        (Event.Type.RUN_CANCELLED, {"by": PROBE, "reason": PROBE}),
        (Event.Type.STEP_WARNED, {"warning": PROBE}),
        (PROBE[:20], {"note": PROBE}),
    ):
        EventFactory(run=hook.run, type=type, call=PROBE, data=data)
    return Run.objects.get(pk=hook.run.pk)


def assert_clean(response: Any) -> None:
    assert response.status_code in (200, 400, 409, 410), response.status_code
    content = response.content.decode()
    assert Suspect(content).found == []
    # It is there, and nothing in it was taken for a template.
    assert "{{ 7|add:1 }}" in content or "xss-probe" not in content


def test_no_page_takes_what_somebody_wrote_for_markup(marked_run: Run) -> None:
    hook = marked_run.hooks.get()
    client = browser_of(UserFactory(superuser=True))
    for address in (
        "/admin/",
        f"{pages.HOOKS}?q={PROBE}",
        f"{pages.HOOKS}?run__workflow={PROBE}",
        f"{pages.HOOKS}?name={PROBE}&status={PROBE}",
        f"{pages.RUNS}?workflow={PROBE}&kind={PROBE}",
        f"{pages.RUNS}?kind=all",
        f"{pages.address(hook)}?_changelist_filters={PROBE}",
        pages.address(hook, "history"),
        pages.address(marked_run),
        pages.address(marked_run, "cancel"),
        path_of(hook),
    ):
        assert_clean(client.get(address.replace("%s", "%25s")))
    chosen = {"action": "approve_selected", "_selected_action": [hook.pk]}
    assert_clean(client.post(pages.HOOKS, chosen))
    # What is typed comes back beside what is wrong with it, and stays when it is told.
    assert_clean(client.post(pages.address(hook, "answer"), {"decision": PROBE, "comment": PROBE}))
    fields = Page(client.get(pages.address(hook))).fields
    sent = {**fields, "decision": "approve", "comment": PROBE}
    assert_clean(client.post(pages.address(hook, "answer"), sent, follow=True))
    assert_clean(client.post(pages.address(hook, "answer"), sent))
    assert_clean(client.get(pages.address(marked_run)))
    assert_clean(client.get(path_of(hook)))


def test_no_mail_takes_what_somebody_wrote_for_markup_or_headers(marked_run: Run) -> None:
    hook = marked_run.hooks.get()
    Hook.objects.update(title=f"{PROBE}\r\nBcc: {DANA}\u2028X: y")
    email_reviewers([DANA])(hook.token)
    while work("default"):
        pass

    (message,) = mail.outbox
    assert message.recipients() == [DANA]
    assert "\n" not in message.subject
    assert {"Bcc", "X"}.isdisjoint(dict(message.message()))
    (html,) = [body for body, kind in message.alternatives if kind == "text/html"]
    assert "{{ 7|add:1 }}" in html
    assert Suspect(str(html)).found == []


def test_json_of_the_api_is_no_page(marked_run: Run) -> None:
    """Opened in a browser, it is not shown as HTML, whatever the browser asks for."""
    hook = marked_run.hooks.get()
    client = browser_of(UserFactory(superuser=True))
    for address in (api("hooks"), api("hook", hook.public_id), api("run", marked_run.public_id)):
        for query in ("", "?format=api", "?format=html"):
            response = client.get(f"{address}{query}", headers={"accept": "text/html,*/*;q=0.1"})
            assert response["Content-Type"] in ("application/json", "application/problem+json")
            assert response["X-Content-Type-Options"] == "nosniff"


def test_an_answer_with_markup_is_told_as_text(marked_run: Run) -> None:
    hook = marked_run.hooks.get()
    payload = {"approved": True, "comment": PROBE, PROBE: [ADDRESS]}
    resume_hook(hook.token, payload, by=PROBE, channel=PROBE[:20])
    client = browser_of(UserFactory(superuser=True))
    for address in (
        pages.address(hook),
        pages.address(marked_run),
        f"{pages.HOOKS}?status=all",
        path_of(hook),
    ):
        assert_clean(client.get(address))


def test_a_stored_value_is_never_safe_markup(marked_run: Run) -> None:
    """Not even if somebody writes the tables: there is no kind for it."""
    hook = marked_run.hooks.get()
    Hook.objects.update(context=Encoded(json.dumps({"a": {"$t": "str", "v": [PROBE]}, "b": PROBE})))
    assert_clean(browser_of(UserFactory(superuser=True)).get(pages.address(hook)))
