"""The codec, given anything: what it reads is a value that every page can show, or one error of ours."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from typing import Any

import pytest
from hypothesis import example, given

from django_stephooks import codec
from django_stephooks.api.values import plain
from django_stephooks.exceptions import SerializationError
from django_stephooks.review.values import show

from . import material
from .material import thrown


def loaded(text: str) -> Any:
    try:
        return codec.loads(text)
    except SerializationError as error:
        # What is stored belongs in no log.
        assert error.__cause__ is None
        raise


@given(material.stored_texts | material.any_text)
@example('{"$t":"model","c":"tests.fuzz.unimportable:Gone","v":{}}')
@example('{"$t":"model","c":"tests.fuzz.material:Picky","v":{"y":1}}')
@thrown(1.5)
def test_any_text_is_a_value_or_a_serialization_error(text: str) -> None:
    with contextlib.suppress(SerializationError):
        loaded(text)


@given(material.stored_texts)
@example('{"$t":"set","v":[{"$t":"model","c":"tests.fuzz.material:Tag","v":{"name":"x"}}]}')
@example('{"$t":"datetime","v":"2026-11-30T10:00:00"}')
@example('{"$t":"datetime","v":"0001-01-01T00:00:00","o":36000000000}')
@thrown(1.5)
def test_whatever_can_be_read_can_be_shown(text: str) -> None:
    try:
        value = loaded(text)
    except SerializationError:
        return
    show(value)
    json.dumps(plain(value), allow_nan=False)


@given(material.stored_texts)
@example('{"$t":"datetime","v":"2026-11-30T10:00:00"}')
@thrown(1.5)
def test_whatever_can_be_read_can_be_written_again(text: str) -> None:
    try:
        value = loaded(text)
    except SerializationError:
        return
    # A page writes what it has read: the digest of what it shows is of that text.
    again = loaded(codec.dumps_whole(value, root="value"))
    assert type(again) is type(value)


@given(material.json_values)
@thrown(1.5)
def test_a_payload_comes_back_as_it_was_or_is_refused(value: Any) -> None:
    try:
        text = codec.dumps_plain(value)
    except SerializationError:
        # Of all that is thrown, JSON itself lacks only these.
        assert any(isinstance(one, float) and not math.isfinite(one) for one in walk(value))
        return
    text.encode()
    back = codec.loads(text)
    assert back == value
    assert all(type(one) in (dict, list, str, int, float, bool, type(None)) for one in walk(back))


def walk(value: Any) -> Any:
    yield value
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from walk(item)
    elif isinstance(value, list):
        for item in value:
            yield from walk(item)


@pytest.mark.parametrize("wrap", [("[", "]"), ('{"a":', "}"), ('[{"$t":"timeout"},', "]")])
def test_nothing_is_read_that_is_much_deeper_than_what_is_written(wrap: tuple[str, str]) -> None:
    deepest = material.deep_text(codec.MAX_DEPTH, wrap)
    assert codec.dumps(codec.loads(deepest)) == deepest
    # What the journal puts around it is read as well.
    assert codec.loads(f'{{"error":{{"args":{deepest}}}}}')

    with pytest.raises(SerializationError, match="too deep"):
        codec.loads(material.deep_text(codec.MAX_DEPTH + 20, wrap))


@given(material.deep_texts)
@thrown(0.5)
def test_no_depth_takes_more_than_a_share_of_the_stack(text: str) -> None:
    depth = 0
    frame: Any = sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + 600)
    try:
        show(loaded(text))
    except SerializationError:
        pass
    finally:
        sys.setrecursionlimit(limit)
