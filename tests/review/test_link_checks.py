"""What `manage.py check` says about links and mail."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import SystemCheckError

from django_stephooks import checks
from django_stephooks.links import base_url
from django_stephooks.review.throttle import parse_rate


def ids(messages: list[Any]) -> list[str]:
    return [message.id for message in messages]


def test_page_and_address_belong_together(settings: Any, configure: Any) -> None:
    assert checks.check_links() == []
    configure(BASE_URL="")
    assert ids(checks.check_links()) == ["stephooks.W004"]
    settings.ROOT_URLCONF = "tests.review.no_urls"
    assert checks.check_links() == []
    configure(BASE_URL="https://desk.example.com")
    assert ids(checks.check_links()) == ["stephooks.W005"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BASE_URL", "desk.example.com"),
        ("LINK_THROTTLE", "often"),
        ("LINK_THROTTLE", "0/min"),
        ("LINK_THROTTLE", 5),
    ],
)
def test_values_that_can_not_be_used_are_errors(configure: Any, name: str, value: Any) -> None:
    configure(**{name: value})
    with pytest.raises(SystemCheckError, match=name):
        call_command("check")


@pytest.mark.parametrize(
    ("rate", "meaning"), [("60/min", (60, 60)), ("5/s", (5, 1)), ("2/hour", (2, 3600)), (None, None)]
)
def test_rates_are_read(rate: Any, meaning: Any) -> None:
    assert parse_rate(rate) == meaning


def test_mail_queue_must_exist(configure: Any) -> None:
    configure(RUNTIME="rq", MAIL_QUEUE="post")
    (message,) = checks.check_queues()
    assert message.id == "stephooks.E005"
    assert "MAIL_QUEUE" in message.msg


def test_site_of_the_sites_framework_is_the_address_otherwise(settings: Any, configure: Any) -> None:
    configure(BASE_URL="")
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "django.contrib.sites"]
    from django.contrib.sites.models import SITE_CACHE, Site

    settings.SITE_ID = 7
    SITE_CACHE[7] = Site(pk=7, domain="www.example.com")
    try:
        assert base_url() == "https://www.example.com"
        assert checks.check_links() == []
        del SITE_CACHE[7]
        with (
            mock.patch.object(Site.objects, "get", side_effect=Site.DoesNotExist),
            pytest.raises(ImproperlyConfigured, match="SITE_ID"),
        ):
            base_url()
    finally:
        SITE_CACHE.clear()


def test_address_may_have_a_path(configure: Any) -> None:
    configure(BASE_URL="https://www.example.com/desk/")
    assert base_url() == "https://www.example.com/desk"
