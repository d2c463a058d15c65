"""CompressedRecordField: what RecordField promises, in fewer bytes."""

from __future__ import annotations

from typing import Any

import pytest
from django.core import serializers
from django.core.exceptions import FieldError
from django.db import connection
from django.utils import timezone

from django_stephooks.exceptions import SerializationError
from django_stephooks.models import StepCheckpoint
from django_stephooks.models.fields import Encoded
from tests.factories import CheckpointFactory

from .test_record_field import AWKWARD, UNREADABLE

pytestmark = pytest.mark.django_db


def stored() -> bytes:
    with connection.cursor() as cursor:
        cursor.execute("SELECT data FROM django_stephooks_stepcheckpoint")
        return bytes(cursor.fetchone()[0])


@pytest.mark.parametrize("value", [AWKWARD, None, "", 0, [], {}, "x" * 100_000])
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    checkpoint = CheckpointFactory(data=value)
    found = StepCheckpoint.objects.get(pk=checkpoint.pk)
    assert found.data == value
    assert type(found.data) is type(value)
    assert StepCheckpoint.objects.values_list("data", flat=True).get() == value
    found.save()
    assert StepCheckpoint.objects.get(pk=checkpoint.pk).data == value


def test_it_takes_fewer_bytes() -> None:
    CheckpointFactory(data={"messages": [{"role": "user", "text": "Is it ready?"}] * 100})
    assert len(stored()) < 300


def test_a_text_that_can_not_be_read_harms_nobody_but_who_asks_for_it() -> None:
    checkpoint = CheckpointFactory(data=Encoded(UNREADABLE))
    found = StepCheckpoint.objects.get(pk=checkpoint.pk)
    with pytest.raises(SerializationError, match="data of StepCheckpoint"):
        _ = found.data
    assert StepCheckpoint.objects.values_list("data", flat=True).get() == Encoded(UNREADABLE)
    found.save()
    assert StepCheckpoint.objects.values_list("data", flat=True).get() == Encoded(UNREADABLE)


@pytest.mark.parametrize("damage", [b"", b"no zlib", b"x\x9c\x01"])
def test_damaged_bytes_harm_nobody_but_who_asks_for_them(damage: bytes) -> None:
    checkpoint = CheckpointFactory(data=1)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_stephooks_stepcheckpoint SET data = %s", [damage])
    found = StepCheckpoint.objects.get(pk=checkpoint.pk)
    with pytest.raises(SerializationError, match="data of StepCheckpoint"):
        _ = found.data


def test_it_goes_into_fixtures_as_text() -> None:
    CheckpointFactory(data=AWKWARD, saved_at=timezone.now())
    text = serializers.serialize("json", StepCheckpoint.objects.all())
    StepCheckpoint.objects.all().delete()
    (loaded,) = serializers.deserialize("json", text)
    loaded.save()
    assert StepCheckpoint.objects.get().data == AWKWARD


def test_it_can_not_be_searched() -> None:
    with pytest.raises(FieldError, match="compressed"):
        StepCheckpoint.objects.filter(data="x")
    assert not StepCheckpoint.objects.filter(data__isnull=True).exists()
