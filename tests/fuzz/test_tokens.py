"""Any text where a token belongs, through each door: refused kindly, nothing is changed, nothing breaks."""

from __future__ import annotations

import unicodedata
from typing import Any
from urllib.parse import quote

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from hypothesis import assume, given
from hypothesis import strategies as st

from django_stephooks import resume_hook
from django_stephooks.exceptions import HookNotFoundError, InvalidTokenError
from django_stephooks.links import make_link_token
from django_stephooks.models import Hook
from django_stephooks.tokens import ALPHABET
from tests.factories import HookFactory
from tests.review.visiting import DANA

from . import material
from .material import thrown

pytestmark = pytest.mark.django_db

LOOKALIKES = str.maketrans(
    {**{chr(ord("0") + n): chr(0xFF10 + n) for n in range(10)}, "K": "\u212a", "A": "\uff21", "s": "\u017f"}
)


@st.composite
def changed(draw: Any, token: str) -> str:
    """The token but for one of its characters, which is one that a token may have."""
    place = draw(st.integers(0, len(token) - 1))
    other = draw(st.sampled_from(ALPHABET))
    assume(other != token[place])
    return token[:place] + other + token[place + 1 :]


@st.composite
def near_misses(draw: Any, token: str) -> str:
    """What is almost the token: cut, lengthened, doubled, turned round, or written in other characters."""
    place = draw(st.integers(0, len(token) - 1))
    other = draw(st.characters(exclude_categories=()))
    shapes = [
        token[:place],
        token[place + 1 :],
        token[:place] + other + token[place:],
        token + token[:place],
        token[::-1],
        token.swapcase(),
        token.translate(LOOKALIKES),
        unicodedata.normalize("NFD", token.translate(LOOKALIKES)),
        token[:place] + "\u200b" + token[place:],
        f"..//{token[place:]}",
        quote(token.translate(LOOKALIKES)),
    ]
    return draw(st.sampled_from(shapes))


def texts_near(*tokens: str) -> Any:
    """Without those that have a whole token in them: links are found in what mail programs made of them."""
    almost = [make(token) for token in tokens for make in (changed, near_misses)]
    return st.one_of(*almost, material.any_text).filter(lambda text: not any(one in text for one in tokens))


def address_of(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


def is_untouched(hook: Hook) -> bool:
    return Hook.objects.filter(pk=hook.pk, status=Hook.Status.PENDING, settled_at=None).exists()


@pytest.fixture
def hook() -> Hook:
    return HookFactory()


@given(data=st.data())
@thrown(2)
def test_python_refuses_it(hook: Hook, data: Any) -> None:
    text = data.draw(texts_near(hook.token))
    with pytest.raises((InvalidTokenError, HookNotFoundError)):
        resume_hook(text, True)
    assert is_untouched(hook)


@given(data=st.data())
@thrown(1)
def test_the_api_refuses_it(hook: Hook, data: Any) -> None:
    text = data.draw(texts_near(hook.token, make_link_token(hook, DANA)))
    response = Client().post(
        f"/api/stephooks/resume/{address_of(text)}/", '{"payload": true}', content_type="application/json"
    )
    assert response.status_code == 404
    assert response["Content-Type"] == "application/problem+json"
    assert is_untouched(hook)


@given(data=st.data(), method=st.sampled_from(["get", "head", "options", "post", "put", "delete"]))
@thrown(1)
def test_the_link_page_refuses_it(hook: Hook, data: Any, method: str) -> None:
    text = data.draw(texts_near(make_link_token(hook, DANA)))
    sent = {"decision": "approve"} if method == "post" else None
    response = getattr(Client(), method)(f"/review/{address_of(text)}", sent)
    assert response.status_code == {"options": 200, "put": 405, "delete": 405}.get(method, 404)
    assert response["Cache-Control"] == "no-store"
    assert is_untouched(hook)


@given(
    data=st.data(), shape=st.sampled_from(["{}", "https://safe.example/?url={}", "<{}>.", "{}=\r\n", "{}%0A"])
)
@thrown(0.5)
def test_a_link_that_is_wrapped_is_found_or_refused_and_looking_changes_nothing(
    hook: Hook, data: Any, shape: str
) -> None:
    text = data.draw(st.just(make_link_token(hook, DANA)) | near_misses(make_link_token(hook, DANA)))
    response = Client().get(f"/review/{address_of(shape.format(text))}")
    assert response.status_code in (200, 404)
    assert is_untouched(hook)


@given(data=st.data())
@thrown(1)
def test_the_command_refuses_it(hook: Hook, data: Any) -> None:
    text = data.draw(texts_near(hook.token, str(hook.public_id)))
    assume(text.strip() != str(hook.pk))
    with pytest.raises(CommandError):
        call_command("stephooks", "hooks", "resume", "--approve", "--as", "dana", "--", text)
    assert is_untouched(hook)
