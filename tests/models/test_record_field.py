"""RecordField: values in, the same values out, on every database; one bad row harms no other."""

from __future__ import annotations

import copy
import datetime as dt
import pickle
from decimal import Decimal
from typing import Any

import pytest
from django.core import serializers
from django.core.exceptions import FieldError, ValidationError
from django.db import connection, models
from django.forms import modelform_factory
from django.test.utils import isolate_apps
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from django_stephooks import codec
from django_stephooks.exceptions import SerializationError
from django_stephooks.models import Run
from django_stephooks.models.fields import Encoded, RecordField

UNREADABLE = '{"$t":"of-a-later-version"}'
AWKWARD = {
    "nul": "a\x00b",
    "surrogates": ["\ud800", "\ud83d\ude00", "😀"],
    "numbers": [1e16, 1.0, -0.0, 2**70, Decimal("1.50")],
    "moment": dt.datetime(2026, 11, 30, 9, 0, 0, 123456, tzinfo=dt.UTC),
    "order": {"b": 1, "a": {2: (3,)}},
    "backslashes": "\\ \\u0000 % %s ' \"",
}


def make(**values: Any) -> Run:
    """A run over and done, which no constraint asks anything more of."""
    options = {"arguments": {}, "status": Run.Status.COMPLETED, "created_at": timezone.now()}
    return Run.objects.create(workflow="w", queue="default", **(options | values))


def stored(run: Run, column: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {column} FROM {Run._meta.db_table} WHERE id = %s", [run.pk])  # noqa: S608
        return cursor.fetchone()[0]


def overwrite(run: Run, column: str, text: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {Run._meta.db_table} SET {column} = %s WHERE id = %s",  # noqa: S608
            [text, run.pk],
        )


class AnyValue(TestCase):
    """The database itself under hypothesis; a transaction for each example."""

    @given(
        st.recursive(
            st.none() | st.integers() | st.text(st.characters(exclude_categories=())),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
            max_leaves=6,
        )
    )
    def test_any_value_comes_back_from_the_database(self, value: Any) -> None:
        run = make(arguments=value, result=[value])
        loaded = Run.objects.get(arguments=value, pk=run.pk)
        assert loaded.arguments == value
        assert loaded.result == [value]


pytestmark = pytest.mark.django_db


def test_awkward_values_come_back_from_the_database() -> None:
    loaded = Run.objects.get(pk=make(arguments=AWKWARD).pk)
    assert loaded.arguments == AWKWARD
    assert list(loaded.arguments["order"]) == ["b", "a"]
    assert repr(loaded.arguments["numbers"]) == repr(AWKWARD["numbers"])


def test_a_megabyte_fits() -> None:
    value = "é" * 1_000_000
    assert Run.objects.get(pk=make(result=value).pk).result == value


def test_none_is_null_only_where_null_is_allowed() -> None:
    run = make(arguments=None, result=None)
    assert (stored(run, "arguments"), stored(run, "result")) == ("null", None)
    run.refresh_from_db()
    assert (run.arguments, run.result) == (None, None)
    assert Run.objects.filter(result__isnull=True, arguments__isnull=False).exists()
    Run.objects.update(arguments=None, result=Encoded("null"))
    assert (stored(run, "arguments"), stored(run, "result")) == ("null", "null")


def test_every_way_of_writing_stores_the_same_text() -> None:
    value = {"a": (1,)}
    text = codec.dumps(value)
    run = make()
    run.result = value
    run.save()
    assert stored(run, "result") == text
    Run.objects.update(result=[])
    run.result = value
    Run.objects.bulk_update([run], ["result"])
    assert stored(run, "result") == text
    Run.objects.update(result=value)
    assert stored(run, "result") == text
    [other] = Run.objects.bulk_create(
        [
            Run(
                workflow="w",
                queue="default",
                status="completed",
                arguments=Encoded(text),
                result=value,
                created_at=timezone.now(),
            )
        ]
    )
    other = Run.objects.exclude(pk=run.pk).get()
    assert (stored(other, "arguments"), stored(other, "result")) == (text, text)


def test_a_text_encoded_before_is_written_as_it_is_and_read_as_its_value() -> None:
    text = '{"a": [1,  2]}'
    run = make(arguments=Encoded(text))
    assert stored(run, "arguments") == text
    assert run.arguments == {"a": [1, 2]}
    run.arguments["a"].append(3)
    run.save()
    assert Run.objects.get().arguments == {"a": [1, 2, 3]}
    Run.objects.update(arguments=Encoded(text))
    assert stored(run, "arguments") == text


def test_changing_a_loaded_value_changes_no_other_instance() -> None:
    pk = make(arguments={"a": []}).pk
    first, second = Run.objects.get(pk=pk), Run.objects.get(pk=pk)
    first.arguments["a"].append(1)
    assert second.arguments == {"a": []}
    assert first.arguments is first.arguments
    assert Run.objects.get(pk=pk).arguments == {"a": []}


def test_a_value_that_can_not_be_stored_is_refused_with_the_field_s_name() -> None:
    with pytest.raises(SerializationError, match=r"^arguments\.x: Values of type builtins.object"):
        make(arguments={"x": object()})
    with pytest.raises(SerializationError, match=r"^result: "):
        Run.objects.update(result=object())
    run = Run(workflow="w", queue="q", arguments={"x": object()}, created_at=timezone.now())
    with pytest.raises(ValidationError) as invalid:
        run.clean_fields()
    assert list(invalid.value.message_dict) == ["arguments"]


def test_validation_leaves_values_as_they_are() -> None:
    for value in ["[1]", "", {}, None, (1,)]:
        run = Run(workflow="w", queue="q", status="failed", arguments=value, created_at=timezone.now())
        run.full_clean()
        assert run.arguments == value


def test_a_deferred_value_is_loaded_when_asked_for() -> None:
    pk = make(arguments=[1]).pk
    run = Run.objects.defer("arguments").get(pk=pk)
    assert run.get_deferred_fields() == {"arguments"}
    assert run.arguments == [1]
    assert run.get_deferred_fields() == set()


def test_values_lists_give_decoded_values() -> None:
    make(arguments={"a": (1,)}, result=None)
    assert list(Run.objects.values_list("arguments", "result")) == [({"a": (1,)}, None)]


def test_copies_and_pickles_have_the_value() -> None:
    run = make(arguments=Encoded("[1]"))
    assert pickle.loads(pickle.dumps(run)).arguments == [1]  # noqa: S301
    assert copy.deepcopy(run).arguments == [1]


# One bad row


def test_a_row_that_can_not_be_read_does_not_stop_a_list() -> None:
    good, bad = make(arguments=["good"]), make()
    overwrite(bad, "arguments", UNREADABLE)
    runs = {run.pk: run for run in Run.objects.all()}
    assert runs[good.pk].arguments == ["good"]
    with pytest.raises(SerializationError) as error:
        _ = runs[bad.pk].arguments
    assert str(error.value).startswith(f"arguments of Run {bad.pk} can not be read. A stored value")
    assert Run.objects.values_list("arguments", flat=True).get(pk=bad.pk) == Encoded(UNREADABLE)


def test_a_row_that_can_not_be_read_is_saved_unharmed() -> None:
    run = make()
    overwrite(run, "arguments", UNREADABLE)
    run = Run.objects.get()
    run.queue = "slow"
    run.save()
    assert stored(run, "arguments") == UNREADABLE
    assert Run.objects.get().queue == "slow"


# Filters


def test_rows_are_found_by_their_exact_value() -> None:
    run = make(result="Word")
    assert Run.objects.filter(result="Word").get() == run
    assert Run.objects.filter(result=Encoded('"Word"')).get() == run
    assert not Run.objects.filter(result="word").exists()
    assert not Run.objects.filter(result="Word ").exists()
    assert not Run.objects.exclude(result="Word").exists()


@pytest.mark.parametrize("lookup", ["contains", "icontains", "in", "gt", "startswith", "regex"])
def test_other_filters_are_refused_with_a_sentence(lookup: str) -> None:
    with pytest.raises(FieldError, match=f"arguments is recorded as text .* by '{lookup}'"):
        Run.objects.filter(**{f"arguments__{lookup}": "x"})


def test_nothing_can_look_inside_a_record() -> None:
    with pytest.raises(FieldError, match="arguments is recorded as text"):
        Run.objects.filter(arguments__story="x")
    with pytest.raises(FieldError, match="'story' can not look inside it"):
        Run.objects.filter(arguments__story__exact="x")


# Fixtures, forms, migrations


@pytest.mark.parametrize("format_", ["json", "jsonl", "xml", "python"])
@pytest.mark.parametrize(
    "value",
    [AWKWARD, "text", "[1]", "", 5, True, 1.5, Decimal("1.50"), AWKWARD["moment"], (1,), [], None],
    ids=lambda value: type(value).__name__,
)
def test_fixtures_hold_values_exactly(format_: str, value: Any) -> None:
    run = make(arguments=value, result=value)
    data = serializers.serialize(format_, [run])
    Run.objects.all().delete()
    for item in serializers.deserialize(format_, data):
        item.save()
    loaded = Run.objects.get()
    assert (loaded.arguments, loaded.result) == (value, value)
    assert type(loaded.arguments) is type(value)


def test_a_row_that_can_not_be_read_can_be_dumped() -> None:
    overwrite(make(), "arguments", UNREADABLE)
    assert "of-a-later-version" in serializers.serialize("json", Run.objects.all())


def test_a_deferred_value_can_be_dumped() -> None:
    make(arguments=["here"])
    assert "here" in serializers.serialize("json", Run.objects.defer("arguments"))


def test_forms_have_no_field_for_it() -> None:
    assert "arguments" not in modelform_factory(Run, fields="__all__").base_fields


def test_migrations_rebuild_the_field() -> None:
    _, path, args, kwargs = RecordField("label", null=True, default=dict).deconstruct()
    assert path == "django_stephooks.models.fields.RecordField"
    assert (args, kwargs) == ([], {"verbose_name": "label", "null": True, "default": dict})


@isolate_apps("tests.app")
def test_a_value_not_given_is_none_or_the_default() -> None:
    class Record(models.Model):
        plain = RecordField()
        nullable = RecordField(null=True)
        listed = RecordField(default=list)

        class Meta:
            app_label = "testapp"

    record, other = Record(), Record()
    assert (record.plain, record.nullable, record.listed) == (None, None, [])
    record.listed.append(1)
    assert other.listed == []
    assert isinstance(Record.plain, type(Run.arguments))
