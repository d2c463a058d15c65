"""Link tokens: letters and digits, for one person and one hook, and nothing that was changed passes."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_stephooks.exceptions import InvalidTokenError, LinkRevokedError
from django_stephooks.links import (
    check_link,
    found_in,
    link_url,
    make_link_token,
    normal_address,
    read_link_token,
)
from django_stephooks.models import Hook
from tests.review.visiting import DANA

ALLOWED = set(string.ascii_letters + string.digits)


@pytest.mark.parametrize("address", [DANA, "dana.o'neil+desk@example.com", "dana@bücher.example", "a@b.co"])
@pytest.mark.parametrize("user_id", ["", "5", "0b9a1f6e-7c0c-4b6e-9a6f-0d8c1f2e3a4b"])
def test_link_says_whom_it_was_sent_to(address: str, user_id: str) -> None:
    hook = Hook()
    token = make_link_token(hook, address, user_id=user_id)
    link = read_link_token(token)
    assert (link.public_id, link.recipient, link.user_id) == (hook.public_id, address, user_id)
    check_link(hook, link)


@given(st.uuids(), st.from_regex(r"\A[a-z0-9]{1,60}\Z"))
def test_link_is_letters_and_digits_only(public_id: Any, name: str) -> None:
    token = make_link_token(Hook(public_id=public_id), f"{name}@example.com")
    assert set(token) <= ALLOWED
    assert read_link_token(token).recipient == f"{name}@example.com"


def test_domain_is_held_in_lower_case_and_the_name_as_it_is() -> None:
    assert normal_address(" Dana@Example.COM ") == "Dana@example.com"


@pytest.mark.parametrize(
    "address",
    [
        "",
        "dana",
        "dana@",
        "a@b.example\nBcc: c@d.example",
        "a b@c.example",
        '"a\x01b"@c.example',
        "\ud800@a.example",
    ],
)
def test_what_is_no_address_gets_no_link(address: str) -> None:
    with pytest.raises(ValueError, match="is not an e-mail address"):
        make_link_token(Hook(), address)


def test_address_too_long_for_a_link_is_refused() -> None:
    with pytest.raises(ValueError, match="too long"):
        make_link_token(Hook(), DANA, user_id="9" * 1000)


def test_link_of_another_hook_is_none() -> None:
    link = read_link_token(make_link_token(Hook(), DANA))
    with pytest.raises(InvalidTokenError):
        check_link(Hook(), link)


def test_each_changed_character_makes_it_junk() -> None:
    hook = Hook()
    token = make_link_token(hook, DANA)
    for position, old in enumerate(token):
        changed = token[:position] + ("a" if old != "a" else "b") + token[position + 1 :]
        with pytest.raises(InvalidTokenError):
            check_link(hook, read_link_token(changed))


@pytest.mark.parametrize(
    "junk", ["", None, 5, "a" * 30, "z" * 60, "0" * 60, "a" * 10_000, "é" * 60, "\ud800" * 60]
)
def test_junk_is_refused_cleanly(junk: Any) -> None:
    with pytest.raises(InvalidTokenError):
        read_link_token(junk)


def test_there_is_one_way_to_write_a_link() -> None:
    token = make_link_token(Hook(), DANA)
    with pytest.raises(InvalidTokenError, match="changed on its way"):
        read_link_token(f"{token[:22]}0{token[22:]}")


def test_a_hooks_own_token_is_no_link_and_a_link_is_no_token(db: None) -> None:
    from django_stephooks import resume_hook
    from tests.factories import HookFactory

    hook = HookFactory()
    with pytest.raises(InvalidTokenError):
        read_link_token(hook.token)
    with pytest.raises(InvalidTokenError):
        resume_hook(make_link_token(hook, DANA), {"approved": True})


def test_link_of_an_earlier_generation_is_told_from_junk() -> None:
    hook = Hook()
    link = read_link_token(make_link_token(hook, DANA))
    hook.token_version = 3
    with pytest.raises(LinkRevokedError):
        check_link(hook, link)


def test_rotated_key_needs_a_fallback(settings: Any) -> None:
    hook = Hook()
    link = read_link_token(make_link_token(hook, DANA))
    old, settings.SECRET_KEY = settings.SECRET_KEY, "a-new-key-for-the-tests"
    with pytest.raises(InvalidTokenError):
        check_link(hook, link)
    check_link(hook, read_link_token(make_link_token(hook, DANA)))
    settings.SECRET_KEY_FALLBACKS = [old]
    check_link(hook, link)


@pytest.mark.parametrize(
    "mangled",
    [
        "{}.",
        "({}).",
        "<{}>",
        "{}=3D",
        "{}%0A",
        "{}\n",
        "{}/",
        " {} and see you tomorrow",
        "{}?utm_source=mail",
        "https%3A%2F%2Fdesk.example%2Freview%2F{}%2F&data=05",
        "https%253A%252F%252Fdesk.example%252Freview%252F{}",
        "https://safelinks.example/?url=3Dhttps%3A%2F%2Fdesk.example%2Freview%2F{}&reserved=0",
    ],
)
def test_what_mail_programs_add_is_taken_off(mangled: str) -> None:
    token = make_link_token(Hook(), DANA)
    assert token in [link.token for link in found_in(mangled.format(token))]


@pytest.mark.parametrize("wrap", ["\n", "\r\n", "=\r\n", " ", "%0D%0A"])
def test_link_that_was_broken_into_lines_is_put_together(wrap: str) -> None:
    token = make_link_token(Hook(), DANA)
    assert token in [link.token for link in found_in(token[:40] + wrap + token[40:])]


@given(st.text(max_size=400))
def test_any_text_is_searched_without_an_error(text: str) -> None:
    assert len(found_in(text)) <= 3


def test_repr_of_a_link_has_no_token() -> None:
    link = read_link_token(make_link_token(Hook(), DANA))
    assert link.token not in repr(link)


def test_address_of_a_link_is_whole(settings: Any) -> None:
    settings.STEPHOOKS = {"BASE_URL": "https://desk.example:8443/"}
    hook = Hook()
    assert link_url(hook, DANA) == f"https://desk.example:8443/review/{make_link_token(hook, DANA)}"
