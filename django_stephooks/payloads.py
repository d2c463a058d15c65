"""Payload schemas: a pydantic model or a Django form that an answer must fit.

Asked when a hook is made (`schema_path`), when an answer is offered (`validate`), and when the
step gets it (`to_python`). Pydantic is optional and never imported from here.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from django import forms
from django.core.exceptions import NON_FIELD_ERRORS

from .codec.classes import class_path, is_pydantic_class, load_class
from .exceptions import InvalidPayloadError, StepHooksError


def schema_path(schema: Any) -> str:
    """A schema as the text that a hook stores; "" for None.

    TypeError if it is not a schema, ValueError if another process could not find it by name.
    """
    if schema is None:
        return ""
    if not _is_form(schema) and not is_pydantic_class(schema):
        raise TypeError(f"payload_schema takes a pydantic model or a Django form class, not {schema!r}.")
    return class_path(schema)


def load_schema(path: str) -> Any:
    """The schema that `schema_path` wrote down; None for ""."""
    if not path:
        return None
    try:
        schema = load_class(path)
    except ImportError as error:
        raise StepHooksError(f"The payload schema {path} can not be loaded: {error}") from error
    if not _is_form(schema) and not is_pydantic_class(schema):
        raise StepHooksError(
            f"The payload schema {path} is neither a pydantic model nor a Django form (any more)."
        )
    return schema


def validate(schema: Any, payload: Any) -> None:
    """InvalidPayloadError, with the errors by field, unless the payload fits.

    Without a schema (None) anything does.
    """
    to_python(schema, payload)


def to_python(schema: Any, payload: Any) -> Any:
    """What the step gets: the pydantic model, or the form's `cleaned_data`.

    Without a schema (None) it is the payload itself. InvalidPayloadError if it does not fit.
    """
    if schema is None:
        return payload
    if _is_form(schema):
        return _through_form(schema, payload)
    return _through_pydantic(schema, payload)


def _is_form(schema: Any) -> bool:
    return isinstance(schema, type) and issubclass(schema, forms.BaseForm)


def _refusal(errors: dict[str, list[str]]) -> InvalidPayloadError:
    listed = "; ".join(
        f"{field}: {' '.join(messages)}" if field != NON_FIELD_ERRORS else " ".join(messages)
        for field, messages in errors.items()
    )
    return InvalidPayloadError(f"The payload does not fit. {listed}", errors=errors)


# Pydantic


def _through_pydantic(schema: Any, payload: Any) -> Any:
    try:
        return _validated(schema, payload)
    except sys.modules["pydantic"].ValidationError as error:
        errors: dict[str, list[str]] = {}
        for item in error.errors(include_url=False, include_context=False, include_input=False):
            field = ".".join(map(str, item["loc"])) or NON_FIELD_ERRORS
            errors.setdefault(field, []).append(item["msg"].removeprefix("Value error, "))
    # Outside the handler, so that no traceback carries the payload along in its context.
    raise _refusal(errors)


def _validated(schema: Any, payload: Any) -> Any:
    try:
        text = json.dumps(payload, ensure_ascii=False).encode()
    except ValueError:
        # A lone surrogate, or a number of thousands of digits: pydantic reads no such JSON, but it
        # can say which field has it.
        return schema.model_validate(payload, strict=False)
    # As JSON, so that a strict model takes "2026-11-30" for a date too.
    return schema.model_validate_json(text)


# Django forms


def _through_form(schema: Any, payload: Any) -> dict[str, Any]:
    if not isinstance(payload, dict):
        raise _refusal({NON_FIELD_ERRORS: ["Expected a JSON object with the form's fields."]})
    form = schema(data={})
    errors = {}
    data = {}
    for name, value in payload.items():
        field = form.fields.get(name)
        if _is_sendable(field, value):
            data[form.add_prefix(name) if field else name] = _as_sent(field, value)
        else:
            errors[name] = ["Enter a single value."]
    if not errors:
        form.data = data
        errors = {name: [str(error) for error in found] for name, found in form.errors.items()}
    if errors:
        raise _refusal(errors)
    cleaned: dict[str, Any] = form.cleaned_data
    return cleaned


def _is_sendable(field: forms.Field | None, value: Any) -> bool:
    """Whether a page could have sent this: a list only where several values can be chosen."""
    if field is None or isinstance(field, forms.JSONField) or not isinstance(value, (dict, list)):
        return True
    takes_several = getattr(field.widget, "allow_multiple_selected", False)
    return isinstance(value, list) and (takes_several or isinstance(field.widget, forms.MultipleHiddenInput))


def _as_sent(field: forms.Field | None, value: Any) -> Any:
    """A number as the text that a page would have sent, for fields that call its methods."""
    if type(value) in (int, float) and not isinstance(field, forms.JSONField):
        return str(value)
    return value
