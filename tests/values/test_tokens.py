"""Tokens: made and checked, junk refused, keys rotated."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st

from django_stephooks.exceptions import InvalidTokenError
from django_stephooks.tokens import check_token, clean, make_token, token_id

PUBLIC_ID = UUID("018f2b1c-7a63-4f0e-9d3a-5b2e8c1f4a77")


@given(st.uuids(), st.integers(0, 2**31))
def test_a_token_is_letters_and_digits_and_names_its_hook(public_id: UUID, version: int) -> None:
    token = make_token(public_id, version=version)
    assert re.fullmatch("[0-9A-Za-z]{44}", token)
    assert token_id(token) == public_id
    check_token(token, public_id, version=version)


@pytest.mark.parametrize("number", [0, 2**128 - 1])
def test_the_smallest_and_the_largest_id_have_tokens_of_full_length(number: int) -> None:
    token = make_token(UUID(int=number), version=1)
    assert len(token) == 44
    assert token_id(token) == UUID(int=number)


def test_a_token_of_another_hook_version_or_purpose_is_refused() -> None:
    token = make_token(PUBLIC_ID, version=1)
    other = uuid4()
    with pytest.raises(InvalidTokenError):
        check_token(token, other, version=1)
    with pytest.raises(InvalidTokenError):
        check_token(token, PUBLIC_ID, version=2)
    with pytest.raises(InvalidTokenError):
        check_token(token, PUBLIC_ID, version=1, purpose="view")
    check_token(make_token(PUBLIC_ID, version=1, purpose="view"), PUBLIC_ID, version=1, purpose="view")


def test_the_hash_of_one_hook_does_not_open_another() -> None:
    other = uuid4()
    forged = make_token(other, version=1)[:22] + make_token(PUBLIC_ID, version=1)[22:]
    assert token_id(forged) == other
    with pytest.raises(InvalidTokenError):
        check_token(forged, other, version=1)


@given(st.integers(0, 43), st.sampled_from("0129ABYZabyz"))
def test_a_token_with_one_character_changed_is_refused(place: int, character: str) -> None:
    token = make_token(PUBLIC_ID, version=1)
    changed = token[:place] + character + token[place + 1 :]
    if changed == token:
        check_token(changed, PUBLIC_ID, version=1)
    else:
        with pytest.raises(InvalidTokenError):
            check_token(changed, PUBLIC_ID, version=1)


@pytest.mark.parametrize(
    "junk",
    [
        None,
        b"0" * 44,
        5,
        "",
        "0" * 43,
        "0" * 45,
        "0" * 43 + "-",
        "0" * 43 + "\x00",
        pytest.param("0" * 43 + "\ud800", id="surrogate"),
        "٣" * 44,
        "z" * 44,
        "'; DROP TABLE hooks; --",
        pytest.param("0" * 1_000_000, id="a million"),
    ],
)
def test_junk_gets_a_short_sentence_that_does_not_repeat_it(junk: Any) -> None:
    with pytest.raises(InvalidTokenError) as refusal:
        token_id(junk)
    sentence = str(refusal.value)
    assert sentence.endswith(".")
    assert len(sentence) < 120
    if isinstance(junk, str) and junk:
        assert junk not in sentence
    with pytest.raises(InvalidTokenError):
        check_token(junk, PUBLIC_ID, version=1)


def test_a_token_cut_short_and_one_lengthened_are_told_apart() -> None:
    token = make_token(PUBLIC_ID, version=1)
    with pytest.raises(InvalidTokenError, match="too short"):
        token_id(token[:-1])
    with pytest.raises(InvalidTokenError, match="too long"):
        token_id(token + "3D")


@given(st.text() | st.text(alphabet="0123456789ABCXYZabcxyz", min_size=44, max_size=44))
def test_any_text_is_an_id_or_an_invalid_token(text: str) -> None:
    try:
        public_id = token_id(text)
    except InvalidTokenError:
        return
    with pytest.raises(InvalidTokenError):
        check_token(text, public_id, version=1)


def test_a_rotated_secret_key_is_honored_while_it_is_a_fallback() -> None:
    with override_settings(SECRET_KEY="old key"):
        token = make_token(PUBLIC_ID, version=1)
    with override_settings(SECRET_KEY="new key", SECRET_KEY_FALLBACKS=["older key", "old key"]):
        check_token(token, PUBLIC_ID, version=1)
        assert make_token(PUBLIC_ID, version=1) != token
    with override_settings(SECRET_KEY="new key"), pytest.raises(InvalidTokenError):
        check_token(token, PUBLIC_ID, version=1)


@pytest.mark.parametrize(
    "surroundings",
    [
        "{}",
        " {}\r\n",
        "{}.",
        "{}).",
        "<{}>",
        "({})",
        '"{}"',
        "{}=",
        "{}=3D",
        "{}%0A",
        "{};",
        "[{}],",
    ],
)
def test_what_mail_programs_add_is_cleaned_off(surroundings: str) -> None:
    token = make_token(PUBLIC_ID, version=1)
    assert clean(surroundings.format(token)) == token


def test_cleaning_leaves_what_is_no_text_to_be_refused() -> None:
    assert clean(None) is None
    with pytest.raises(InvalidTokenError):
        token_id(clean(None))
