"""Run by test_unfold.py in a process of its own: a reviewer at work under django-unfold."""

from __future__ import annotations

import django

django.setup()

from django.contrib import admin  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.test.utils import setup_test_environment  # noqa: E402

from tests.admin.conftest import browser_of  # noqa: E402
from tests.admin.pages import HOOKS, RUNS, address, again, answer, parsed, text_of  # noqa: E402
from tests.factories import HookFactory, UserFactory  # noqa: E402


def main() -> None:
    call_command("migrate", verbosity=0)
    setup_test_environment()
    assert type(admin.site).__module__.startswith("unfold"), type(admin.site)
    browser = browser_of(UserFactory(username="dana", reviewer=True))
    change = {"before": {"fee": "10 euros"}, "after": {"fee": "12 euros"}}
    first, second = HookFactory(title="First?", context=change), HookFactory(title="Second?")

    assert "Awaiting your review" in text_of(browser.get("/admin/"))
    listed = text_of(browser.get(HOOKS))
    for words in ("First?", "2 waiting", "Approve selected…"):
        assert words in listed, words

    page = browser.get(address(first))
    for words in ("What it is about", "added: 12", "Your answer", "What happened"):
        assert words in text_of(page), words
    assert "desk.css" in page.content.decode()
    assert answer(browser, first).status_code == 302

    selected = {"action": "reject_selected", "_selected_action": [second.pk]}
    (form,) = [f for f in parsed(browser.post(HOOKS, selected)).forms if "selection" in f.fields]
    assert browser.post(form.action, {**form.fields, "comment": "No."}).status_code == 302
    assert [again(hook).payload["approved"] for hook in (first, second)] == [True, False]

    boss = browser_of(UserFactory(superuser=True))
    assert boss.get(RUNS).status_code == 200
    assert "What happened" in text_of(boss.get(address(first.run)))


main()
