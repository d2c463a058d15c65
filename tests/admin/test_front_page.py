"""What awaits the user's review on the admin's front page."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.template import Context, Template
from django.test import Client, RequestFactory
from django.utils import timezone

from tests.factories import HookFactory, UserFactory

from . import other_site
from .conftest import browser_of
from .pages import HOOKS, address, parsed, text_of

pytestmark = pytest.mark.django_db

EVIL = "<script>alert(1)</script>"


@pytest.fixture
def in_front(settings: Any) -> None:
    """As in a project that lists the app before Django's admin."""
    others = [app for app in settings.INSTALLED_APPS if app != "django_stephooks"]
    settings.INSTALLED_APPS = ["django_stephooks", *others]


@pytest.mark.usefixtures("in_front")
def test_front_page_lists_the_five_most_urgent(browser: Client, dana: Any) -> None:
    now = timezone.now()
    hooks = [HookFactory(title=f"{EVIL}{n}", expires_at=now + timedelta(hours=9 - n)) for n in range(6)]
    HookFactory(title="Theirs", reviewers=["email:lou@example.com"], overdue=True)
    HookFactory(title="Own", run__started_by=dana, overdue=True)
    HookFactory(title="Too late", past_deadline=True)
    response = browser.get("/admin/")
    page = parsed(response)
    listed = [link for link, _ in page.links if link.startswith(HOOKS) and link.endswith("/change/")]
    assert listed == [address(hook) for hook in reversed(hooks[1:])]
    assert page.link("All that await your review").endswith(f"{HOOKS}?awaiting=me")
    assert EVIL.encode() not in response.content
    # It is added to Django's own page.
    assert "Recent actions" in text_of(response)
    assert "Awaiting your review" not in text_of(browser.get("/admin/django_stephooks/"))


@pytest.mark.usefixtures("in_front")
@pytest.mark.parametrize("who", ["nobody asked", "onlooker", "without view"])
def test_panel_is_hidden_when_there_is_nothing_to_do(browser: Client, who: str) -> None:
    if who != "nobody asked":
        HookFactory()
        permissions = ["view_hook"] if who == "onlooker" else ["review_hook"]
        browser = browser_of(UserFactory(staff=True, permissions=permissions))
    response = browser.get("/admin/")
    assert response.status_code == 200
    assert "Awaiting your review" not in text_of(response)


def test_front_page_is_left_alone_if_the_app_stands_behind_the_admin(browser: Client) -> None:
    HookFactory()
    assert "Awaiting your review" not in text_of(browser.get("/admin/"))


def panel(user: Any, **attributes: Any) -> str:
    request = RequestFactory().get("/somewhere/")
    request.user = user
    for name, value in attributes.items():
        setattr(request, name, value)
    template = Template("{% load stephooks %}{% stephooks_awaiting %}")
    return template.render(Context({"request": request}))


def test_tag_works_on_any_page_of_a_project(dana: Any) -> None:
    hook = HookFactory()
    assert address(hook) in panel(dana)
    assert not Template("{% load stephooks %}{% stephooks_awaiting %}").render(Context()).strip()


@pytest.mark.urls(other_site.__name__)
def test_links_lead_into_the_admin_site_of_the_page(dana: Any) -> None:
    hook = HookFactory()
    assert f"/desk/django_stephooks/hook/{hook.pk}/change/" in panel(dana, current_app="desk")


@pytest.mark.urls("tests.review.no_urls")
def test_site_without_the_desk_has_no_panel(dana: Any) -> None:
    HookFactory()
    assert "Awaiting" not in panel(dana)
