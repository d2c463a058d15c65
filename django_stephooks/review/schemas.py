"""A pydantic model as the fields of a form: one for each property of its JSON Schema.

What is flat (texts, numbers, dates, choices, each of them perhaps optional) becomes a field of that
kind; anything else is asked for as JSON. The model itself has the last word on what fits.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, get_args

from django import forms
from django.utils.text import capfirst
from django.utils.translation import gettext as _

# Left out of the payload, so that the model takes its default.
OMITTED = object()

LONG_NAMES = ("comment", "description", "note", "reason", "text")
LONG_TEXT = 300
MAX_CHOICES = 500


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A property: the field that asks for it, and what a cleaned value is in the payload."""

    field: forms.Field
    encode: Callable[[Any], Any]
    if_blank: Any = OMITTED

    def in_payload(self, value: Any) -> Any:
        return self.if_blank if value in (None, "") else self.encode(value)


class JsonField(forms.CharField):
    """Any value as JSON. What it fits is checked by whoever asked for it."""

    widget = forms.Textarea(attrs={"rows": 6, "spellcheck": "false", "class": "stephooks-code"})

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"strip": False, **options})
        # An empty list or object is an answer.
        self.empty_values = [None, ""]

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text or not text.strip():
            return None
        try:
            return json.loads(text)
        except RecursionError:
            raise forms.ValidationError(_("This is nested too deep.")) from None
        except ValueError as error:
            raise forms.ValidationError(_("This is not JSON: %(why)s") % {"why": error}) from None

    def run_validators(self, value: Any) -> None:
        """Those of texts do not apply to what the text meant."""


def properties_of(schema: Any) -> dict[str, Asked] | None:
    """The properties of a model, or None if it can only be asked for as a whole."""
    try:
        document = schema.model_json_schema()
    except Exception:  # noqa: BLE001  (a model may have types that JSON Schema has no words for)
        return None
    definitions = document.get("$defs", {})
    document = _resolved(document, definitions)
    properties = document.get("properties")
    if document.get("type") != "object" or not isinstance(properties, dict):
        return {} if document.get("type") == "object" and "additionalProperties" not in document else None
    annotations = {
        key: field.annotation
        for name, field in schema.model_fields.items()
        for key in (name, field.alias, field.validation_alias)
        if isinstance(key, str)
    }
    required = document.get("required", ())
    return {
        name: _Property(name, spec, definitions, annotations.get(name), name in required).asked()
        for name, spec in properties.items()
    }


def _resolved(spec: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """What a reference refers to, with what is said beside it."""
    found = dict(spec)
    while reference := found.pop("$ref", ""):
        found = {**definitions.get(reference.rpartition("/")[2], {}), **found}
    return found


class _Property:
    """One property on its way to become a field."""

    def __init__(
        self,
        name: str,
        spec: Mapping[str, Any],
        definitions: Mapping[str, Any],
        annotation: Any,
        required: bool,
    ) -> None:
        self.definitions = definitions
        self.spec = _resolved(spec, definitions)
        self.name, self.annotation, self.is_required = name, annotation, required
        self.is_nullable = False
        self._take_apart()
        title = self.spec.get("title") or ""
        # Pydantic makes one of the name, with Capitals; a sentence reads better.
        is_made = not title or "_".join(title.split()).lower() == name.lower() or "enum" in self.spec
        self.options: dict[str, Any] = {
            "label": capfirst(name.replace("_", " ")) if is_made else title,
            "help_text": self.spec.get("description") or "",
            "initial": self.spec.get("default"),
            "required": required and not self.is_nullable,
        }

    def _take_apart(self) -> None:
        """Optional[X] is X that may be left empty; a Decimal is a number or a text."""
        arms = [_resolved(arm, self.definitions) for arm in self.spec.get("anyOf", ())]
        rest = [arm for arm in arms if arm.get("type") != "null"]
        self.is_nullable = len(rest) < len(arms)
        if len(rest) == 1:
            self.spec = {**rest[0], **{key: value for key, value in self.spec.items() if key != "anyOf"}}
        elif [arm.get("type") for arm in rest] == ["number", "string"] and self._is(Decimal):
            self.spec = {**rest[0], **self.spec, "type": "decimal"}

    def _is(self, kind: type) -> bool:
        return self.annotation is kind or kind in get_args(self.annotation)

    def asked(self) -> Asked:
        if "const" in self.spec:
            return self._choice([self.spec["const"]])
        if "enum" in self.spec:
            return self._choice(self.spec["enum"])
        kind = self.spec.get("type")
        make = {
            "boolean": self._boolean,
            "integer": self._number,
            "number": self._number,
            "decimal": self._number,
            "string": self._string,
            "array": self._array,
        }.get(kind if isinstance(kind, str) else "", self._json)
        return make()

    @property
    def if_blank(self) -> Any:
        return None if self.is_nullable else OMITTED

    def _boolean(self) -> Asked:
        if self.is_nullable:
            return self._choice([True, False])
        return Asked(field=forms.BooleanField(**{**self.options, "required": False}), encode=bool)

    def _number(self) -> Asked:
        kind = self.spec["type"]
        limits = {"min_value": self.spec.get("minimum"), "max_value": self.spec.get("maximum")}
        if kind == "decimal":
            limits = {name: None if limit is None else Decimal(str(limit)) for name, limit in limits.items()}
        make: Any = {"integer": forms.IntegerField, "number": forms.FloatField, "decimal": forms.DecimalField}
        encode: Any = {"integer": int, "number": float, "decimal": str}
        return Asked(field=make[kind](**self.options, **limits), encode=encode[kind], if_blank=self.if_blank)

    def _string(self) -> Asked:
        dated: Any = {
            "date": (forms.DateField, forms.DateInput, "date", "%Y-%m-%d"),
            "time": (forms.TimeField, forms.TimeInput, "time", "%H:%M:%S"),
            "date-time": (forms.DateTimeField, forms.DateTimeInput, "datetime-local", "%Y-%m-%dT%H:%M"),
        }.get(self.spec.get("format", ""))
        if not dated:
            return self._text()
        field, widget, kind, written = dated
        field = field(widget=widget(attrs={"type": kind}, format=written), **self.options)
        return Asked(field=field, encode=lambda value: value.isoformat(), if_blank=self.if_blank)

    def _text(self) -> Asked:
        shortest, longest = self.spec.get("minLength", 0), self.spec.get("maxLength")
        is_long = self.name in LONG_NAMES or (longest or 0) > LONG_TEXT
        kind = {"email": "email", "uri": "url"}.get(self.spec.get("format", ""), "text")
        widget = forms.Textarea(attrs={"rows": 4}) if is_long else forms.TextInput(attrs={"type": kind})
        is_any = not (shortest or self.spec.get("format") or self.spec.get("pattern"))
        # The empty text is a text, if the model does not say otherwise.
        required = self.options["required"] and not is_any
        field = forms.CharField(
            **{**self.options, "required": required},
            widget=widget,
            min_length=shortest or None,
            max_length=longest,
        )
        return Asked(
            field=field, encode=str, if_blank="" if is_any and not self.is_nullable else self.if_blank
        )

    def _array(self) -> Asked:
        items = _resolved(self.spec.get("items") or {}, self.definitions)
        if "enum" not in items or self.is_nullable:
            return self._json()
        values = _by_key(items["enum"])
        initial = [key for key, value in values.items() if value in (self.options["initial"] or ())]
        field = forms.MultipleChoiceField(
            **{**self.options, "initial": initial, "required": bool(self.spec.get("minItems"))},
            choices=[(key, self._label(value)) for key, value in values.items()],
            widget=forms.CheckboxSelectMultiple,
        )
        return Asked(field=field, encode=lambda keys: [values[key] for key in keys])

    def _choice(self, options: list[Any]) -> Asked:
        self.is_nullable |= None in options
        values = _by_key([option for option in options if option is not None])
        if len(values) > MAX_CHOICES or not all(isinstance(v, (str, int, float)) for v in values.values()):
            return self._json()
        default = self.spec.get("default")
        initial = next((key for key, value in values.items() if _same(value, default)), "")
        choices = [(key, self._label(value)) for key, value in values.items()]
        field = forms.ChoiceField(
            **{**self.options, "initial": initial, "required": self.is_required and not self.is_nullable},
            choices=choices if initial and not self.is_nullable else [("", "---------"), *choices],
        )
        return Asked(field=field, encode=values.__getitem__, if_blank=self.if_blank)

    def _label(self, value: Any) -> str:
        if isinstance(value, bool):
            return _("yes") if value else _("no")
        kinds = [self.annotation, *get_args(self.annotation)]
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, enum.Enum):
                for member in kind:
                    if _same(member.value, value):
                        return str(getattr(member, "label", "") or member.name.replace("_", " ").lower())
        return str(value)

    def _json(self) -> Asked:
        initial = self.options["initial"]
        if initial is not None:
            initial = json.dumps(initial, ensure_ascii=False, indent=2)
        help_text = " ".join(filter(None, [self.options["help_text"], _("As JSON.")]))
        field = JsonField(**{**self.options, "initial": initial, "help_text": help_text})
        return Asked(field=field, encode=lambda value: value, if_blank=self.if_blank)


def _by_key(values: list[Any]) -> dict[str, Any]:
    """The values by what a form sends for them."""
    keys = [value if isinstance(value, str) else json.dumps(value) for value in values]
    if len(set(keys)) < len(keys) or "" in keys:
        keys = [json.dumps(value) for value in values]
    return dict(zip(keys, values, strict=True))


def _same(one: Any, other: Any) -> bool:
    # True is 1 in Python, but not in JSON.
    return type(one) is type(other) and bool(one == other)
