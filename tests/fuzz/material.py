"""What is thrown at the doors and into the tables, and how much of it.

HYPOTHESIS_PROFILE=ci throws ten times as much as the suite does by itself.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, model_validator

from django_stephooks import codec
from django_stephooks.codec.decoding import _DECODERS


def thrown(share: float) -> Any:
    """A share of the profile's examples, for tests in which one takes long."""
    return hypothesis_settings(
        max_examples=max(5, int(hypothesis_settings().max_examples * share)),
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.function_scoped_fixture,
            HealthCheck.filter_too_much,
        ],
    )


class Tag(BaseModel):
    """Can be a key, and stand in a set."""

    model_config = ConfigDict(frozen=True)
    name: str = ""


class Picky(BaseModel):
    """Its validator fails in a way that pydantic hands on."""

    x: int = 0

    @model_validator(mode="after")
    def never(self) -> Any:
        raise RuntimeError("out of order")


# --- text and JSON ---

any_text = st.text(st.characters(exclude_categories=()), max_size=12)
# What every database can hold in a column of text.
storable_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
awkward_text = st.sampled_from(
    ["", "\x00", "\ud800", "\udfff\ud800", "\ud83d\ude00", "$t", "__type__", "</script>", "\u2028", "ﬀ", "٣"]
)
numbers = st.one_of(
    st.integers(),
    st.sampled_from([10**4000, -(10**400), 2**63, -(2**63) - 1, 2**2000, 0]),
    st.floats(),
)


def nested(depth: int, kind: str = "list") -> Any:
    value: Any = None
    for _ in range(depth):
        value = [value] if kind == "list" else {"a": value}
    return value


def markers(children: Any) -> Any:
    """Objects that look like one of our kinds, or like another library's."""
    names = st.sampled_from(["v", "z", "o", "n", "f", "c", "x", "p", "s", "__type__", "py/object", "$t"])
    kinds = st.sampled_from(["cloudpickle", "", "DICT", *_DECODERS]) | children
    return st.builds(
        lambda kind, rest: {**rest, "$t": kind}, kinds, st.dictionaries(names, children, max_size=3)
    )


json_values: Any = st.recursive(
    st.none() | st.booleans() | numbers | any_text | awkward_text,
    lambda children: st.one_of(
        st.lists(children, max_size=3),
        st.dictionaries(any_text | awkward_text, children, max_size=3),
        markers(children),
    ),
    max_leaves=8,
)
deep_values = st.builds(
    nested, st.sampled_from([50, 99, 100, 101, 400, 900]), st.sampled_from(["list", "dict"])
)


def as_json(value: Any) -> str:
    """As any client writes it: NaN, lone surrogates and all."""
    return json.dumps(value)


json_texts = st.one_of(
    json_values.map(as_json),
    st.sampled_from(
        [
            '{"payload": 1, "payload": 2}',
            '{"approved": true, "approved": false}',
            "[" * 100_000,
            '{"a":' * 100_000,
            "NaN",
            "-Infinity",
            "1e999",
            '"\\ud800"',
            '"\\u0000"',
            "9" * 5000,
            "\ufeff{}",
        ]
    ),
)

# --- what somebody made of a stored text ---

PATHS = (
    "tests.fuzz.material:Tag",
    "tests.fuzz.material:Picky",
    "tests.fuzz.unimportable:Gone",
    "tests.fuzz.material:thrown",
    "os:system",
    "builtins:dict",
    "django.contrib.auth.models:User",
    "gone:Gone",
    "pydantic:BaseModel",
    ":",
    "a:b:c",
    "",
)
_texts = st.sampled_from(
    [
        "2026-11-30",
        "2026-11-30T10:00:00",
        "0001-01-01T00:00:00",
        "9999-12-31T23:59:59.999999",
        "10:00",
        "1.50",
        "1E+999999",
        "NaN",
        "sNaN",
        "ff",
        "inf",
        "AAAA",
        "00000000000000000000000000000000",
        "Europe/Paris",
        "../../etc/passwd",
        "America",
        "\u0000",
    ]
)
_parts = st.one_of(
    storable_text,
    _texts,
    st.sampled_from(PATHS),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.none(),
    st.booleans(),
)


def _nodes(children: Any) -> Any:
    pairs = st.lists(st.lists(children, min_size=2, max_size=2) | children, max_size=3)
    return st.one_of(
        st.lists(children, max_size=3),
        st.dictionaries(
            storable_text | st.sampled_from(["error", "result", "attempt", "due_at", "calls", "by"]),
            children,
            max_size=3,
        ),
        st.fixed_dictionaries(
            {"$t": st.sampled_from(list(_DECODERS)) | children, "v": children | _texts | pairs},
            optional={
                "z": children | _texts,
                "o": children | st.integers(-(10**14), 10**14),
                "n": children,
                "f": st.just(1),
                "c": st.sampled_from(PATHS) | children,
                "x": children,
                "p": children,
                "s": children,
            },
        ),
    )


stored_trees: Any = st.recursive(_parts, _nodes, max_leaves=10)
_WHOLE = codec.dumps(
    {
        "a": (1, 2.5, {"x"}, frozenset({b"y"})),
        "b": [codec.loads('{"$t":"datetime","v":"2026-11-30T10:00:00","o":0}'), Tag(name="t")],
        1: {"error": {"type": "a:B", "message": "m", "args": ("m",)}, "attempt": 1},
    }
)


@st.composite
def damaged_texts(draw: Any) -> str:
    """A stored text of which a stretch was overwritten, doubled or lost."""
    text = draw(st.just(_WHOLE) | stored_trees.map(as_json))
    begin = draw(st.integers(0, len(text)))
    end = draw(st.integers(begin, min(len(text), begin + 10)))
    middle = draw(
        st.sampled_from(["", text[begin:end] * 2]) | storable_text | st.text('{}[]",:$tv0', max_size=4)
    )
    return text[:begin] + middle + text[end:]


def deep_text(depth: int, wrap: tuple[str, str]) -> str:
    return wrap[0] * depth + "null" + wrap[1] * depth


deep_texts = st.builds(
    deep_text,
    st.sampled_from([101, 150, 300, 450, 700, 950, 5_000, 100_000]),
    st.sampled_from(
        [
            ("[", "]"),
            ('{"a":', "}"),
            ('{"$t":"tuple","v":[', "]}"),
            ('{"$t":"tuple","v":', "}"),
            ('{"$t":"dict","v":[[1,', "]]}"),
            ('[{"$t":"timeout"},', "]"),
            ('{"$t":"model","c":"tests.fuzz.material:Tag","v":{"name":', "}}"),
        ]
    ),
)


def _is_storable(text: str) -> bool:
    return "\x00" not in text and not any("\ud800" <= one <= "\udfff" for one in text)


stored_texts: Any = st.one_of(stored_trees.map(as_json), damaged_texts(), deep_texts, storable_text).filter(
    _is_storable
)
