"""RecordField: any value that the codec can write, in a text column.

Text and not the database's own JSON type: that would reorder keys, turn 1e16 into an integer, and
refuse NUL characters, each database in its own way.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from django.core.exceptions import FieldError, ValidationError
from django.db import models
from django.db.models.lookups import Exact
from django.db.models.query_utils import DeferredAttribute

from django_stephooks import codec
from django_stephooks.codec import Encoded
from django_stephooks.exceptions import SerializationError

__all__ = ["CompressedRecordField", "Encoded", "RecordField"]

# The fastest: JSON gains most of what it can by it.
LEVEL = 1

if TYPE_CHECKING:
    _TextField = models.TextField[Any, Any]
    _Exact = Exact[Any]
else:
    _TextField = models.TextField
    _Exact = Exact


class RecordAttribute(DeferredAttribute):
    """The value of a RecordField on an instance; an `Encoded` is decoded when it is asked for.

    A stored text that can not be read (its pydantic class is gone) raises here, and not while rows
    are loaded: one bad row must not take a list or the sweep down.
    """

    field: RecordField

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        value = super().__get__(instance, cls)
        if type(value) is not Encoded:
            return value
        try:
            value = codec.loads(value.text)
        except SerializationError as error:
            # Not the instance's repr: it may come back here.
            row = f"{type(instance).__name__} {instance.pk}"
            raise SerializationError(f"{self.field.name} of {row} can not be read. {error}") from None
        instance.__dict__[self.field.attname] = value
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.field.attname] = value


class RecordField(_TextField):
    """A column for a value that the codec can write; each instance loaded has its own copy.

    `Encoded(text)` can be assigned or passed in place of a value. With `null=True`, None is SQL
    NULL; otherwise it is JSON's null. `values()` and `values_list()` give decoded values too, but
    for a text that can not be read its `Encoded`. Filters: `exact` (the same text) and `isnull`.
    """

    if TYPE_CHECKING:
        _pyi_private_set_type: Any
        _pyi_private_get_type: Any

    description = "A recorded value"
    empty_strings_allowed = False
    descriptor_class = RecordAttribute

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Any:
        if value is None:
            return None
        try:
            return codec.loads(value)
        except SerializationError:
            return Encoded(value)

    def get_prep_value(self, value: Any) -> str | None:
        if value is None and self.null:
            return None
        if type(value) is Encoded:
            return value.text
        return codec.dumps_whole(value, root=self.name or "value")

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        # What was assigned: a text that is encoded already, or that can not be read, is written as
        # it is.
        if self.attname in model_instance.__dict__:
            return model_instance.__dict__[self.attname]
        return super().pre_save(model_instance, add)

    def clean(self, value: Any, model_instance: models.Model | None) -> Any:
        try:
            self.get_prep_value(value)
        except SerializationError as error:
            raise ValidationError(str(error)) from error
        return value

    def formfield(self, *args: Any, **kwargs: Any) -> Any:
        return None

    def get_lookup(self, lookup_name: str) -> Any:
        if lookup_name not in ("exact", "isnull"):
            raise FieldError(
                f"{self.name} is recorded as text and can not be filtered by {lookup_name!r}, "
                "only by 'exact' or 'isnull'."
            )
        return super().get_lookup(lookup_name)

    def get_transform(self, lookup_name: str) -> Any:
        raise FieldError(f"{self.name} is recorded as text; {lookup_name!r} can not look inside it.")

    # Fixtures hold the text. Serializers write numbers and dates as they are unless they are given
    # a string, and give `to_python` what they read; `clean` above does not pass through it.

    def value_from_object(self, obj: models.Model) -> str | None:
        return self.get_prep_value(self.pre_save(obj, False))

    def value_to_string(self, obj: models.Model) -> str:
        return self.value_from_object(obj) or "null"

    def to_python(self, value: Any) -> Any:
        return Encoded(value) if isinstance(value, str) else value


class CompressedRecordField(RecordField):
    """The same for values that may be long and that no query looks at: zlib in a binary column."""

    description = "A recorded value, compressed"

    def get_internal_type(self) -> str:
        return "BinaryField"

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        if value is None:
            return None
        try:
            text = zlib.decompress(value).decode()
        except (zlib.error, UnicodeDecodeError):
            return Encoded("")  # damaged: to be told when somebody asks for it
        return super().from_db_value(text, expression, connection)

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        text = value if prepared else self.get_prep_value(value)
        return None if text is None else connection.Database.Binary(zlib.compress(text.encode(), LEVEL))

    def get_lookup(self, lookup_name: str) -> Any:
        if lookup_name != "isnull":
            raise FieldError(f"{self.name} is recorded compressed and can only be filtered by 'isnull'.")
        return super().get_lookup(lookup_name)


@RecordField.register_lookup
class RecordExact(_Exact):
    """The same text; on MySQL and MariaDB too, whose collations ignore case and trailing spaces."""

    def as_mysql(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:
        left, left_params = self.process_lhs(compiler, connection)
        right, right_params = self.process_rhs(compiler, connection)
        return f"CAST({left} AS BINARY) = CAST({right} AS BINARY)", [*left_params, *right_params]
