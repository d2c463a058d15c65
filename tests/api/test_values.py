"""Recorded values as plain JSON, for other programs to read."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from pydantic import BaseModel, ConfigDict

from django_stephooks import STEP_HOOK_TIMEOUT
from django_stephooks.api.values import plain
from tests.api.test_document import JUNK


class Story(BaseModel):
    model_config = ConfigDict(extra="allow")

    price: Decimal
    tags: set[str]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (datetime(2026, 11, 30, 1, 2, 3, 456789, UTC), "2026-11-30T01:02:03.456789+00:00"),
        (date(2026, 11, 30), "2026-11-30"),
        (time(1, 2), "01:02:00"),
        (timedelta(days=1, microseconds=5), "P1DT00H00M00.000005S"),
        (Decimal("1.50"), "1.50"),
        (Decimal("NaN"), "NaN"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (b"\x00\xff", "AP8="),
        ((1, (2,)), [1, [2]]),
        ({"b", "a"}, ["a", "b"]),
        (frozenset({(2, "x"), (1, "y")}), [[1, "y"], [2, "x"]]),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (1e16, 1e16),
        (True, True),
        (10**20, 10**20),
        (1 << 2000, hex(1 << 2000)),
        ({1: "a", None: "b", (1, 2): "c", "d": 4}, {"1": "a", "null": "b", "[1, 2]": "c", "d": 4}),
        (STEP_HOOK_TIMEOUT, "STEP_HOOK_TIMEOUT"),
        (Story(price=Decimal("2"), tags={"x"}, more=b"x"), {"price": "2", "tags": ["x"], "more": "eA=="}),
    ],
)
def test_what_json_has_not_is_readable(value: Any, shown: Any):
    result = plain(value)

    assert (result, type(result)) == (shown, type(shown))


@given(JUNK)
def test_whatever_was_sent_can_be_written_as_json(value: Any):
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == plain(value)
