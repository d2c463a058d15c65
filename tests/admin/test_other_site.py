"""Another admin site than the stock one: every link and every redirect stays in it."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.contrib import admin
from django.test import Client

from django_stephooks.models import Hook, Run
from tests.factories import HookFactory, RunFactory, UserFactory

from . import other_site
from .conftest import browser_of
from .pages import again, parsed

pytestmark = [pytest.mark.django_db, pytest.mark.urls(other_site.__name__)]

DESK = "/desk/django_stephooks"


@pytest.fixture
def boss() -> Client:
    return browser_of(UserFactory(superuser=True))


def test_answer_in_another_site_stays_there(boss: Client) -> None:
    hook = HookFactory()
    page = parsed(boss.get(f"{DESK}/hook/{hook.pk}/change/"))
    (form,) = [form for form in page.forms if "comment" in form.fields]
    assert form.action == f"{DESK}/hook/{hook.pk}/answer/"
    assert not [link for link, _ in page.links if link.startswith("/admin/")]
    response = boss.post(form.action, {**form.fields, "decision": "approve"})
    assert response["Location"] == f"{DESK}/hook/{hook.pk}/change/"
    assert again(hook).status == Hook.Status.RECEIVED


def test_bulk_in_another_site_stays_there(boss: Client) -> None:
    hook, other = HookFactory(), HookFactory()
    url = f"{DESK}/hook/"
    selected = {"action": "approve_selected", "_selected_action": [hook.pk, other.pk]}
    page = parsed(boss.post(f"{url}?name=approve", selected))
    (form,) = [form for form in page.forms if "selection" in form.fields]
    assert form.action.startswith(f"{url}bulk/")
    assert not [link for link, _ in page.links if link.startswith("/admin/")]
    assert boss.post(form.action, form.fields)["Location"] == f"{url}?name=approve"
    assert {again(hook).status, again(other).status} == {Hook.Status.RECEIVED}


def test_next_question_in_another_site_is_there_too(boss: Client) -> None:
    hook, other = HookFactory(), HookFactory()
    page = parsed(boss.get(f"{DESK}/hook/{hook.pk}/change/"))
    assert page.link("Next question").endswith(f"{DESK}/hook/{other.pk}/change/")
    (form,) = [form for form in page.forms if "comment" in form.fields]
    onward = form.buttons[-1].action
    response = boss.post(onward, {**form.fields, "decision": "approve"})
    assert response["Location"] == f"{DESK}/hook/{other.pk}/change/"


def test_run_in_another_site_stays_there(boss: Client) -> None:
    hook = HookFactory()
    page = parsed(boss.get(f"{DESK}/run/{hook.run_id}/change/"))
    assert not [link for link, _ in page.links if link.startswith("/admin/")]
    assert (f"{DESK}/hook/{hook.pk}/change/", str(hook)) in page.links
    response = boss.post(page.link("Cancel…"), {"reason": "x"})
    assert response["Location"] == f"{DESK}/run/{hook.run_id}/change/"


def test_subject_without_a_page_in_this_site_is_not_linked(boss: Client) -> None:
    run = RunFactory(subject=UserFactory(username="ann"))
    assert "ann" not in [words for _, words in parsed(boss.get(f"{DESK}/run/{run.pk}/change/")).links]


def test_only_hooks_and_runs_are_in_the_admin() -> None:
    ours = set(apps.get_app_config("django_stephooks").get_models())
    assert {model for model in ours if admin.site.is_registered(model)} == {Hook, Run}
