"""Lengths of time: what is accepted, what is refused with a sentence, how they are shown."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_stephooks.durations import describe, parse_duration


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("24h", timedelta(hours=24)),
        ("7d", timedelta(days=7)),
        ("1h30m", timedelta(hours=1, minutes=30)),
        ("1h 30m", timedelta(hours=1, minutes=30)),
        (" 90s ", timedelta(seconds=90)),
        ("1w", timedelta(weeks=1)),
        ("500ms", timedelta(milliseconds=500)),
        ("5m", timedelta(minutes=5)),
        ("1.5h", timedelta(minutes=90)),
        ("1w2d3h4m5s6ms", timedelta(days=9, hours=3, minutes=4, seconds=5, milliseconds=6)),
        (90, timedelta(seconds=90)),
        (0.25, timedelta(milliseconds=250)),
        (timedelta(minutes=3), timedelta(minutes=3)),
        (timedelta(days=36525), timedelta(days=36525)),
    ],
)
def test_accepted_lengths_of_time(text: Any, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "is not a length of time"),
        ("   ", "is not a length of time"),
        ("soon", "is not a length of time"),
        ("24", "is not a length of time"),
        ("h", "is not a length of time"),
        ("24H", "is not a length of time"),
        ("24x", "is not a length of time"),
        ("24h!", "is not a length of time"),
        ("1h1h", "is not a length of time"),
        ("30m1h", "is not a length of time"),
        ("-1h", "is not a length of time"),
        ("1e3s", "is not a length of time"),
        ("٣h", "is not a length of time"),
        ("1h\x00", "is not a length of time"),
        (True, "is not a length of time"),
        (None, "is not a length of time"),
        ([1], "is not a length of time"),
        (b"1h", "is not a length of time"),
        (float("nan"), "is not a length of time"),
        ("0s", "is no time at all"),
        (0, "is no time at all"),
        (1e-9, "is no time at all"),
        (timedelta(0), "is no time at all"),
        (-1, "is negative"),
        (timedelta(microseconds=-1), "is negative"),
        (float("inf"), "is longer than 100 years"),
        (float("-inf"), "is longer than 100 years"),
        (timedelta.max, "is longer than 100 years"),
        (timedelta(days=36525, microseconds=1), "is longer than 100 years"),
        ("6000w", "is longer than 100 years"),
        ("999999999999999w", "is longer than 100 years"),
        (10**400, "is longer than 100 years"),
        pytest.param(10**5000, "is longer than 100 years", id="5000 digits"),
    ],
)
def test_nonsense_is_refused_with_what_is_accepted(value: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refusal:
        parse_duration(value, name="timeout")
    sentence = str(refusal.value)
    assert sentence.startswith("timeout: ")
    assert '"1h30m"' in sentence
    assert len(sentence) < 300


def test_the_refusal_quotes_what_was_given() -> None:
    with pytest.raises(ValueError, match=re.escape("retry_delay: '24x' is not a length")):
        parse_duration("24x", name="retry_delay")


def test_zero_is_accepted_where_it_is_allowed() -> None:
    assert parse_duration("0s", allow_zero=True) == timedelta(0)
    assert parse_duration(0, allow_zero=True) == timedelta(0)
    with pytest.raises(ValueError, match="zero or more"):
        parse_duration(-1, allow_zero=True)


@given(st.text() | st.from_regex(r"[0-9.]{0,20}[wdhms]{0,3}[0-9]{0,20}[wdhms]{0,3}"))
def test_any_text_is_a_length_of_time_or_a_value_error(text: str) -> None:
    try:
        duration = parse_duration(text)
    except ValueError:
        return
    assert timedelta(0) < duration <= timedelta(days=36525)


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(hours=1, minutes=30), "1 h 30 min"),
        (timedelta(hours=24), "1 d"),
        (timedelta(days=7), "7 d"),
        (timedelta(seconds=90), "1 min 30 s"),
        (timedelta(milliseconds=500), "500 ms"),
        (timedelta(seconds=1, microseconds=1), "1 s 0.001 ms"),
        (timedelta(0), "0 s"),
        (timedelta(minutes=-5), "-5 min"),
        (timedelta(days=36525), "36,525 d"),
    ],
)
def test_lengths_of_time_for_people(duration: timedelta, text: str) -> None:
    assert describe(duration) == text
