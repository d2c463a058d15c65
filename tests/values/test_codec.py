"""The codec: exact round trips, refusals that name the path, data that stays data."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
import math
import re
import sys
import threading
import types
from collections import OrderedDict, namedtuple
from collections.abc import Iterator
from decimal import Decimal
from functools import cached_property
from typing import Any, Generic, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import pydantic
import pytest
from django.contrib.auth.models import User
from django.db import models
from django.utils.functional import SimpleLazyObject
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy
from freezegun import freeze_time
from hypothesis import given
from hypothesis import strategies as st

from django_stephooks import codec
from django_stephooks.exceptions import SerializationError
from django_stephooks.types import STEP_HOOK_TIMEOUT

T = TypeVar("T")
PARIS = ZoneInfo("Europe/Paris")


class Item(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    price: Decimal
    tags: set[str] = set()


class SpecialItem(Item):
    discount: float = 0.0


class Basket(pydantic.BaseModel):
    """What a plain dump loses: a subclass in a field, a validator that changes, private state."""

    label: str = pydantic.Field(default="", alias="theLabel")
    items: list[Item] = []
    when: dt.datetime | None = None
    _seen: int = pydantic.PrivateAttr(default=0)

    @pydantic.field_validator("label")
    @classmethod
    def marked(cls, label: str) -> str:
        return f"<{label}>"

    @cached_property
    def total(self) -> Decimal:
        return sum((item.price for item in self.items), Decimal(0))


class Box(pydantic.BaseModel, Generic[T]):
    content: T


class Nothing:
    pass


class Color(models.TextChoices):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Point:
    x: int


Pair = namedtuple("Pair", "a b")


def same(left: Any, right: Any) -> bool:
    """Equal, and of the same types throughout, with NaN equal to itself, and in the same order."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return len(left) == len(right) and all(
            same(a, b) for a, b in zip(left.items(), right.items(), strict=True)
        )
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, (set, frozenset)):
        return len(left) == len(right) and all(any(same(a, b) for b in right) for a in left)
    if isinstance(left, float):
        return (math.isnan(left) and math.isnan(right)) or repr(left) == repr(right)
    if isinstance(left, Decimal):
        return str(left) == str(right)
    if isinstance(left, (dt.datetime, dt.time)):
        return (
            left.replace(tzinfo=None) == right.replace(tzinfo=None)
            and left.fold == right.fold
            and left.tzinfo == right.tzinfo
            and left.tzname() == right.tzname()
        )
    return bool(left == right)


def back(value: Any) -> Any:
    text = codec.dumps(value)
    # What any database stores: no surrogates, no NUL; and JSON by the standard.
    text.encode()
    assert "\x00" not in text
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    return codec.loads(text)


def refusal(value: Any, **options: Any) -> str:
    with pytest.raises(SerializationError) as refused:
        codec.dumps(value, **options)
    assert refused.value.__cause__ is None
    return str(refused.value)


any_text = st.text(st.characters(exclude_categories=()), max_size=8)
zones = st.one_of(
    st.sampled_from([dt.UTC, PARIS, ZoneInfo("UTC"), ZoneInfo("America/New_York")]),
    st.timedeltas(dt.timedelta(hours=-23), dt.timedelta(hours=23)).map(dt.timezone),
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    any_text,
    st.sampled_from(["$t", "\ud83d\ude00", "\ude00\ud83d", "\x00", '"$t"', 10**700]),
    st.integers(2000, 20_000).map(lambda bits: -(1 << bits)),
    st.datetimes(timezones=zones, allow_imaginary=True).flatmap(
        lambda moment: st.sampled_from([moment, moment.replace(fold=1)])
    ),
    st.dates(),
    st.times(),
    st.builds(lambda time, zone: time.replace(tzinfo=zone), st.times(), zones),
    st.timedeltas(),
    st.decimals(),
    st.uuids(),
    st.binary(max_size=20),
    st.just(STEP_HOOK_TIMEOUT),
)


def is_signaling(value: Any) -> bool:
    return isinstance(value, Decimal) and value.is_snan()


# A signaling NaN has no hash, so Python has it in no set.
hashables = st.recursive(
    scalars.filter(lambda value: not is_signaling(value)),
    lambda inner: st.one_of(st.lists(inner, max_size=3).map(tuple), st.frozensets(inner, max_size=3)),
    max_leaves=5,
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.sets(hashables, max_size=3),
        st.dictionaries(any_text, inner, max_size=4),
        st.dictionaries(hashables, inner, max_size=3),
        st.dictionaries(st.sampled_from(["$t", "v", "c"]), inner, max_size=3),
    ),
    max_leaves=20,
)
plain_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        any_text,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(any_text | st.sampled_from(["$t", "v", "c"]), inner, max_size=4),
    ),
    max_leaves=20,
)


# Round trips


@given(values)
def test_every_value_comes_back_exactly(value: Any) -> None:
    assert same(back(value), value)


@given(plain_values)
def test_plain_json_comes_back_equal_and_as_nothing_else(value: Any) -> None:
    assert same(codec.loads(codec.dumps_plain(value)), value)


@pytest.mark.parametrize(
    "value",
    [
        dt.datetime(2026, 10, 25, 2, 30, 0, 1, tzinfo=PARIS, fold=1),
        dt.datetime(2026, 3, 29, 2, 30, tzinfo=PARIS),
        dt.datetime(1, 1, 1, tzinfo=dt.UTC),
        dt.datetime(2026, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1), "CET")),
        dt.datetime(2026, 1, 1, tzinfo=dt.timezone(dt.timedelta(0), "GMT")),
        dt.datetime(2026, 1, 1, tzinfo=dt.timezone(dt.timedelta(seconds=-1, microseconds=1))),
        dt.time(1, 2, 3, 4),
        dt.time(1, 2, tzinfo=PARIS),
        dt.timedelta.min,
        Decimal("1.50"),
        Decimal("-0"),
        Decimal("NaN123"),
        Decimal("sNaN"),
        Decimal("1E+999999"),
        UUID(int=0),
        b"",
        bytes(range(256)),
        (),
        ((1,), [2]),
        # Named, because xdist compares names, and a set shows its members in any order.
        pytest.param({frozenset({1}), (2, "x")}, id="set"),
        {1: "int", "1": "str", (1,): "tuple", None: "none", 1.5: "float"},
        {"b": 1, "a": 2},
        {},
        1e16,
        -0.0,
        float("nan"),
        float("-inf"),
        2**64,
        "\ud83d\ude00",
        {"\ud83d\ude00": 1},
        {"\ud83d": 1},
        {"$t": "uuid", "v": "0"},
        {"$t": {"$t": "dict", "v": []}},
    ],
    ids=repr,
)
def test_a_value_of_each_kind_comes_back_exactly(value: Any) -> None:
    assert same(back(value), value)


def test_a_time_zone_is_the_same_object_after_loading() -> None:
    moment = dt.datetime(2026, 10, 25, 2, 30, tzinfo=PARIS, fold=1)
    assert back(moment).tzinfo is PARIS
    assert back(moment).utcoffset() == dt.timedelta(hours=1)


def test_the_timeout_is_the_one_object_after_loading() -> None:
    assert back(STEP_HOOK_TIMEOUT) is STEP_HOOK_TIMEOUT
    assert back({"answer": [STEP_HOOK_TIMEOUT]})["answer"][0] is STEP_HOOK_TIMEOUT


def test_ordinary_json_is_stored_as_it_is() -> None:
    assert codec.dumps({"name": "Zoë", "n": [1, 2.5, None, True]}) == ('{"name":"Zoë","n":[1,2.5,null,true]}')


def test_time_frozen_by_a_test_is_stored_like_the_real_one() -> None:
    with freeze_time("2026-11-30 09:00:00"):
        text = codec.dumps([dt.datetime.now(dt.UTC), dt.date.today()])  # noqa: DTZ011
        assert codec.loads(text) == [dt.datetime.now(dt.UTC), dt.date.today()]  # noqa: DTZ011
    assert codec.loads(text) == [
        dt.datetime(2026, 11, 30, 9, tzinfo=dt.UTC),
        dt.date(2026, 11, 30),
    ]


# Pydantic models


def test_a_pydantic_model_comes_back_with_its_whole_state() -> None:
    basket = Basket(
        theLabel="x",
        items=[SpecialItem(price=Decimal("1.10"), tags={"a"}, discount=0.5, color="red")],
        when=dt.datetime(2026, 1, 1, tzinfo=PARIS),
    )
    basket._seen = 7
    assert basket.total == Decimal("1.10")
    loaded = back({"basket": basket})["basket"]
    assert loaded == basket
    assert type(loaded.items[0]) is SpecialItem
    assert loaded.items[0].color == "red"
    assert loaded.label == "<x>"
    assert loaded._seen == 7
    assert loaded.when.tzinfo is PARIS
    assert "total" not in loaded.__dict__
    assert loaded.total == Decimal("1.10")


def test_which_fields_were_set_is_kept() -> None:
    assert back(Item(price=Decimal(1))).model_fields_set == {"price"}
    full = Item(price=Decimal(1), tags=set())
    assert back(full).model_fields_set == {"price", "tags"}


def test_a_model_loaded_has_its_own_state() -> None:
    item = Item(price=Decimal(1), tags={"a"})
    text = codec.dumps(item)
    codec.loads(text).tags.add("b")
    assert codec.loads(text) == item


def test_a_model_that_another_process_could_not_find_is_refused() -> None:
    class Local(pydantic.BaseModel):
        x: int = 1

    assert "define it at the top level of a module" in refusal([Local()])
    assert "define it at the top level of a module" in refusal(Box[int](content=1))
    assert back(Box(content=1)) == Box(content=1)


def test_a_model_made_without_a_field_is_refused() -> None:
    assert refusal(Item.model_construct()) == "value: This Item was made without its field price."


def test_a_value_inside_a_model_is_refused_with_its_path() -> None:
    item = Item(price=Decimal(1), maker=Nothing())
    assert refusal(Basket(items=[item]), root="result").startswith("result.items[0].maker: Values of type ")


@pytest.fixture
def changing_module() -> Iterator[types.ModuleType]:
    """A module whose classes change, as by a deploy."""
    module = types.ModuleType("changing_module")
    sys.modules["changing_module"] = module
    yield module
    del sys.modules["changing_module"]


def define(module: types.ModuleType, **fields: Any) -> Any:
    cls: Any = pydantic.create_model("Order", __module__=module.__name__, **fields)
    module.Order = cls  # type: ignore[attr-defined]
    return cls


def test_a_model_with_a_new_field_gets_its_default(changing_module: types.ModuleType) -> None:
    old = define(changing_module, number=(int, ...), gone=(str, "x"))
    text = codec.dumps(old(number=1))
    new = define(changing_module, number=(int, pydantic.Field(alias="nr")), note=(str, "none"))
    loaded = codec.loads(text)
    assert type(loaded) is new
    assert (loaded.number, loaded.note) == (1, "none")


def test_a_model_that_fits_its_class_no_more_is_an_error(
    changing_module: types.ModuleType,
) -> None:
    text = codec.dumps([define(changing_module, number=(int, 987654))()])
    define(changing_module, number=(int, ...), note=(str, ...))
    with pytest.raises(SerializationError, match="does not fit its class as it is now: note") as e:
        codec.loads(text)
    assert "987654" not in str(e.value)
    assert e.value.__context__ is None
    del changing_module.Order
    with pytest.raises(SerializationError, match=r"There is no class Order .* \(any more\)"):
        codec.loads(text)


# Refusals


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (User(pk=1), "Model instances are not stored; pass the pk."),
        (SimpleLazyObject(lambda: User(pk=1)), "Model instances are not stored; pass the pk."),
        (User.objects.all(), "Querysets are not stored; pass their pks:"),
        (User.objects, "Querysets are not stored; pass their pks:"),
        (gettext_lazy("Yes"), "Lazy strings are not stored; pass str(value)."),
        (Color.RED, "Enum members are not stored; pass value.value."),
        (Level.LOW, "Enum members are not stored; pass value.value."),
        (mark_safe("<b>"), "Subclasses of str (django.utils.safestring.SafeString) are not stored"),
        (OrderedDict(), "Subclasses of dict (collections.OrderedDict) are not stored; pass dict("),
        (Pair(1, 2), "Subclasses of tuple ("),
        (Point(1), "Dataclasses ("),
        (dt.datetime(2026, 1, 1), "Naive datetimes are not stored; use an aware datetime"),  # noqa: DTZ001
        (bytearray(b"x"), "Values of type bytearray are not stored; pass bytes(value)."),
        (Nothing, "Classes are not stored; pass plain data."),
        (Nothing(), "Values of type tests.values.test_codec.Nothing are not stored"),
        (threading.Lock(), "Values of type _thread.lock are not stored"),
        (1j, "Values of type builtins.complex are not stored"),
        (iter([1]), "Values of type builtins.list_iterator are not stored"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_what_would_not_come_back_is_refused_with_path_and_remedy(value: Any, reason: str) -> None:
    sentence = refusal({"state": {"user": value}}, root="checkpoint")
    assert sentence.startswith(f"checkpoint.state.user: {reason}")
    assert sentence.endswith(".")


def test_a_coroutine_is_refused_with_the_word_await() -> None:
    async def later() -> None: ...

    coroutine = later()
    assert refusal(coroutine, root="result") == ("result: Coroutines are not stored; await it first.")
    coroutine.close()


@pytest.mark.parametrize(
    ("value", "remedied"),
    [
        (mark_safe("<b>"), lambda value: "".join(value)),
        (Pair(1, 2), tuple),
        (OrderedDict(a=1), dict),
        (Point(1), dataclasses.asdict),
        (Color.RED, lambda value: value.value),
        (gettext_lazy("Yes"), str),
    ],
)
def test_the_remedies_work(value: Any, remedied: Any) -> None:
    assert back(remedied(value)) == remedied(value)


class ZoneOfNoName(dt.tzinfo):
    def utcoffset(self, moment: dt.datetime | None) -> dt.timedelta:
        return dt.timedelta(hours=1)


def test_a_time_zone_that_has_no_name_to_store_is_refused() -> None:
    moment = dt.datetime(2026, 1, 1, tzinfo=ZoneOfNoName())
    assert "ZoneOfNoName are not stored; use a zoneinfo.ZoneInfo" in refusal(moment)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"items": [0, 1, 2, {"price": Nothing()}]}, "result.items[3].price"),
        ([(Nothing(),)], "result[0][0]"),
        ({1: {True: Nothing()}}, "result[1][bool]"),
        ({"a b": Nothing()}, 'result["a b"]'),
        ({"\x00\ud800": Nothing()}, r'result["\u0000\ud800"]'),
        ({"x" * 60: Nothing()}, f'result["{"x" * 40}"]'),
        ({"a": {Nothing(): 1}}, "result.a[Nothing]: (as a key)"),
        ({"a": frozenset([Nothing()])}, "result.a:"),
        ({(1, 2): Nothing()}, "result[tuple]"),
    ],
)
def test_the_path_leads_to_the_value(value: Any, path: str) -> None:
    assert refusal(value, root="result").startswith(path)


def cycle_of_lists() -> Any:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


def cycle_of_dicts() -> Any:
    cycle: dict[Any, Any] = {}
    cycle[1] = {"again": (cycle, cycle)}
    return cycle


def nested(levels: int, wrap: Any = lambda inner: [inner]) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = wrap(value)
    return value


@pytest.mark.parametrize(
    "value",
    [
        cycle_of_lists(),
        cycle_of_dicts(),
        nested(101),
        nested(50_000),
        nested(101, lambda v: {1: v}),
    ],
    ids=["list", "dict", "101", "50000", "pairs"],
)
def test_cycles_and_too_deep_values_are_refused(value: Any) -> None:
    sentence = refusal(value, root="result")
    assert "nested more than 100 levels deep, or contains itself" in sentence
    assert len(sentence) < 200


@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: [inner],
        lambda inner: (inner,),
        lambda inner: frozenset([inner]),
        lambda inner: {"a": inner},
        lambda inner: {1: inner},
        lambda inner: {(inner,): 1} if isinstance(inner, int) else {1: inner},
        lambda inner: {"$t": inner},
    ],
)
def test_the_deepest_value_allowed_comes_back(wrap: Any) -> None:
    value = nested(99, wrap)
    assert back(value) == value


def in_a_deep_stack(levels: int, function: Any) -> Any:
    return function() if levels == 0 else in_a_deep_stack(levels - 1, function)


def test_too_little_stack_is_one_of_our_errors() -> None:
    deep = nested(90, lambda inner: {1: (inner,)} if isinstance(inner, int) else [inner])
    text = codec.dumps(deep)
    free = sys.getrecursionlimit() - len(__import__("inspect").stack())
    with pytest.raises(SerializationError, match="nested too deep"):
        in_a_deep_stack(free - 60, lambda: codec.dumps(deep))
    with pytest.raises(SerializationError, match="nested too deep"):
        in_a_deep_stack(free - 60, lambda: codec.loads(text))


@pytest.mark.parametrize("dumps", [codec.dumps, codec.dumps_plain])
def test_the_size_is_capped_in_bytes(dumps: Any) -> None:
    assert dumps("é", max_bytes=4) == '"é"'
    assert dumps("\ud800", max_bytes=8) == '"\\ud800"'
    for value, cap in [("é", 3), ("\ud800", 7), ("x", 2)]:
        with pytest.raises(SerializationError):
            dumps(value, max_bytes=cap)
    with pytest.raises(SerializationError) as refused:
        dumps(["x" * 2000], root="payload", max_bytes=1024, setting="MAX_PAYLOAD_BYTES")
    assert str(refused.value) == (
        "payload: It takes 2,004 bytes, more than the 1,024 that MAX_PAYLOAD_BYTES allows. "
        "Keep the bulk elsewhere and pass a reference to it."
    )


# From outside


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"a": [float("nan")]}, "payload.a[0]: nan is not JSON; pass null or a string."),
        ({"a": float("-inf")}, "payload.a: -inf is not JSON; pass null or a string."),
        ({"a": (1,)}, "payload.a: A tuple is not JSON; pass list(value)."),
        ({"a": {1: 2}}, "payload.a: JSON objects have strings as keys, not int; pass str(key)."),
        ({"a": Decimal(1)}, "payload.a: Values of type decimal.Decimal are not JSON; pass dicts"),
        ({"a": Item(price=Decimal(1))}, "payload.a: Values of type tests.values.test_codec.Item"),
        ({"a": mark_safe("x")}, "payload.a: Values of type django.utils.safestring.SafeString"),
        (STEP_HOOK_TIMEOUT, "payload: Values of type django_stephooks.types.StepHookTimeout"),
    ],
)
def test_a_payload_is_json_and_nothing_else(value: Any, sentence: str) -> None:
    with pytest.raises(SerializationError, match=re.escape(sentence)):
        codec.dumps_plain(value)


def test_a_payload_too_deep_is_refused() -> None:
    with pytest.raises(SerializationError, match=r"payload.*nested more than 100 levels"):
        codec.dumps_plain(nested(50_000))


@pytest.mark.parametrize(
    "payload",
    [
        {
            "__type__": "cloudpickle",
            "data": "gASVHAAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAJpZJSFlFKULg==",
        },
        {"$t": "model", "c": "subprocess:Popen", "v": {"args": "id"}},
        {"$t": "dict", "v": [[1, 2]]},
        [{"$t": "decimal", "v": "1"}],
        {"a": {"$t": None}},
        {"\\u0024t": "uuid"},
        '{"$t": "uuid"}',
    ],
)
def test_a_payload_that_looks_like_one_of_our_kinds_is_data(payload: Any) -> None:
    assert codec.loads(codec.dumps_plain(payload)) == payload
    assert codec.loads(codec.dumps({"payload": payload})) == {"payload": payload}


# Reading


@pytest.mark.parametrize(
    "text",
    [
        '{"$t": "unheard-of"}',
        '{"$t": null}',
        '{"$t": ["list"], "v": []}',
        '[{"a": {"$t": "pickle", "v": ""}}]',
    ],
)
def test_an_unknown_kind_is_an_error(text: str) -> None:
    with pytest.raises(SerializationError, match="which this version does not know"):
        codec.loads(text)


@pytest.mark.parametrize(
    "node",
    [
        {"$t": "uuid"},
        {"$t": "uuid", "v": 5},
        {"$t": "uuid", "v": "secret"},
        {"$t": "decimal", "v": "secret"},
        {"$t": "datetime", "v": "secret"},
        {"$t": "datetime", "v": "2026-01-01", "z": "No/Such"},
        {"$t": "datetime", "v": "2026-01-01", "z": "../../etc/passwd"},
        {"$t": "datetime", "v": "2026-01-01", "z": "Europe"},
        {"$t": "datetime", "v": "2026-01-01", "o": "CET"},
        {"$t": "datetime", "v": "2026-01-01", "o": 10**12},
        {"$t": "timedelta", "v": [10**10, 0, 0]},
        {"$t": "bytes", "v": "secret!"},
        {"$t": "int", "v": "secret"},
        {"$t": "float", "v": None},
        {"$t": "set", "v": [[1]]},
        {"$t": "dict", "v": [[1]]},
        {"$t": "dict", "v": [[[], 1]]},
        {"$t": "tuple", "v": 1},
        {"$t": "str", "v": [1]},
        {"$t": "model"},
    ],
    ids=str,
)
def test_a_damaged_value_is_an_error_that_does_not_quote_it(node: Any) -> None:
    with pytest.raises(SerializationError, match="can not be read") as error:
        codec.loads(json.dumps([node]))
    assert "secret" not in str(error.value)
    assert error.value.__cause__ is None


@pytest.mark.parametrize(
    "path",
    [
        "os:system",
        "subprocess:Popen",
        "builtins:dict",
        "pydantic:BaseModel.model_validate",
        "no.such.module:Item",
        f"{__name__}:Gone",
        f"{__name__}:Item.__init__.__globals__",
        f"{__name__}:Nothing",
        "",
        ":",
        "..x:y",
    ],
)
def test_only_pydantic_models_are_made(path: str) -> None:
    with pytest.raises(SerializationError, match="can not be read"):
        codec.loads(json.dumps({"$t": "model", "c": path, "v": {}}))


@pytest.mark.parametrize(
    "text", ["", "{", "secret", "'x'", "[" * 100_000, None, pytest.param("1" * 5000, id="digits")]
)
def test_what_is_no_json_is_an_error(text: Any) -> None:
    with pytest.raises(SerializationError) as error:
        codec.loads(text)
    assert "secret" not in str(error.value)
    assert error.value.__cause__ is None


# Showing


def test_what_no_page_can_print_is_replaced_for_showing() -> None:
    value = {
        "a\x00": ["b\ud800", ("c\x00",), {"d\x00"}, frozenset({"e\x00"})],
        "n": 1,
        "p": Pair("f\x00", None),
        "m": Item(price=Decimal(1), note="g\x00"),
    }
    assert codec.printable(value) == {
        "a\ufffd": ["b\ufffd", ("c\ufffd",), {"d\ufffd"}, frozenset({"e\ufffd"})],
        "n": 1,
        "p": ("f\ufffd", None),
        "m": {"price": Decimal(1), "tags": set(), "note": "g\ufffd"},
    }


@given(values)
def test_anything_shown_can_be_sent_to_a_browser(value: Any) -> None:
    shown = codec.dumps(codec.printable(back(value)))
    assert "\\u0000" not in shown.replace("\\\\", "")
    shown.encode()
    assert not re.search(r"\\ud[89a-f]", shown.replace("\\\\", ""))


def test_the_text_of_a_record_is_not_in_its_repr() -> None:
    assert "secret" not in repr(codec.Encoded('"secret"'))
