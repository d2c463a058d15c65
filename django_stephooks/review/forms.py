"""The form by which a hook is answered, the same on each of the faces.

`answer_form` gives the one for a hook: a comment and a verdict, the schema's own Django form, the
fields of a pydantic model, or the payload as JSON. `payload()` is what is sent to `resume_hook`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_stephooks import payloads
from django_stephooks.exceptions import InvalidPayloadError, SerializationError, StepHooksError
from django_stephooks.models import Hook

from .schemas import OMITTED, Asked, JsonField, properties_of
from .values import printable_text
from .writing import as_json

if TYPE_CHECKING:
    _Form = forms.Form
else:
    _Form = object

VERDICT = (("approve", gettext_lazy("Approve")), ("reject", gettext_lazy("Reject")))
ANSWER = (("answer", gettext_lazy("Send the answer")),)

# Names that the pages' own fields have: a schema's field of that name is sent under another one.
RESERVED = frozenset({"csrfmiddlewaretoken", "decision", "next", "seen", "stamp"})


class Answering(_Form):
    """What every answer form has: buttons that give the verdict, and a reviewer who is not asked for.

    `decisions` are the buttons, by the value that the field "decision" has if they are pressed. The
    fields in `filled_in` are set by the form itself and not shown.
    """

    def __init__(self, who: Any, data: Any = None) -> None:
        super().__init__(None if data is None else _with_plain_newlines(data))
        self.who = who.get_username() if hasattr(who, "get_username") else str(who)
        self.filled_in: set[str] = set()
        approved, reviewer = self.fields.get("approved"), self.fields.get("reviewer")
        self.has_verdict = _is_yes_or_no(approved)
        self.decisions = VERDICT if self.has_verdict else ANSWER
        if self.has_verdict:
            self.filled_in.add("approved")
        if type(reviewer) is forms.CharField:
            self.filled_in.add("reviewer")
        if self.is_bound:
            self._fill_in()

    def _fill_in(self) -> None:
        data: Any = self.data
        decision = data.get("decision")
        if self.has_verdict and decision in dict(VERDICT):
            data[self.add_prefix("approved")] = "true" if decision == "approve" else "false"
        if "reviewer" in self.filled_in:
            data[self.add_prefix("reviewer")] = self.who

    def add_prefix(self, field_name: str) -> str:
        name = super().add_prefix(field_name)
        return f"answer-{name}" if name in RESERVED else name

    def __iter__(self) -> Iterator[forms.BoundField]:
        """The fields that are shown."""
        return (self[name] for name in self.fields if name not in self.filled_in)

    @property
    def main_field(self) -> str:
        """The one of which most is said: where people write."""
        names = [name for name in self.fields if name not in self.filled_in]
        return "comment" if "comment" in names else next(iter(names), "")

    def clean(self) -> Any:
        cleaned = super().clean()
        if self.has_verdict and self.add_prefix("approved") not in self.data:
            self.add_error(None, _("Choose one of the buttons."))
        return self.cleaned_data if cleaned is None else cleaned

    def add_error(self, field: str | None, error: Any) -> None:
        if field in self.filled_in:
            # Nobody could see it there.
            messages = error.messages if isinstance(error, forms.ValidationError) else [str(error)]
            field, error = None, [f"{field}: {message}" for message in messages]
        super().add_error(field, error)

    def payload(self) -> Any:
        """The answer as plain JSON; of a valid form only."""
        raise NotImplementedError

    def refuse(self, error: StepHooksError) -> bool:
        """Say beside the fields why the service did not take it; False if it was not about the payload."""
        if isinstance(error, InvalidPayloadError):
            for path, messages in error.errors.items():
                field, _dot, rest = path.partition(".")
                if field not in self.fields:
                    field, rest = self._unnamed_field, "" if path == "__all__" else path
                prefix = f"{rest}: " if rest else ""
                self.add_error(field or None, [printable_text(prefix + message) for message in messages])
        elif isinstance(error, SerializationError):
            self.add_error(self._unnamed_field or self.main_field or None, printable_text(error))
        else:
            return False
        return True

    # Where errors go that are about no field.
    _unnamed_field = ""

    def said(self) -> str:
        """What was done, for the site's log."""
        if not self.has_verdict:
            return _("Answered.")
        return _("Approved.") if self.data["decision"] == "approve" else _("Rejected.")

    def typed(self) -> str:
        """What was written, to be copied by somebody who came too late."""
        if not self.is_bound:
            return ""
        values = {bound.label: bound.data for bound in self}
        written = {
            label: value for label, value in values.items() if isinstance(value, str) and value.strip()
        }
        if len(values) == 1:
            return "".join(written.values())
        return "\n".join(f"{label}: {value}" for label, value in written.items())


class DecisionForm(Answering, forms.Form):
    """Approve or reject, with a comment: what a hook without a schema is answered by."""

    approved = forms.BooleanField(required=False)
    comment = forms.CharField(
        label=gettext_lazy("Comment"),
        help_text=gettext_lazy("Needed if you reject."),
        required=False,
        widget=forms.Textarea(attrs={"rows": 4}),
    )
    reviewer = forms.CharField(required=False, strip=False)

    def clean(self) -> Any:
        cleaned = super().clean()
        if self.data.get("decision") == "reject" and cleaned.get("comment") == "":
            self.add_error("comment", _("Say why: whoever reads this has to know what to change."))
        return cleaned

    def payload(self) -> Any:
        cleaned = self.cleaned_data
        return {name: cleaned[name] for name in ("approved", "comment", "reviewer")}


class PayloadForm(Answering, forms.Form):
    """The payload as a whole, as JSON."""

    # Not called "payload": the property of the form has that name.
    answer = JsonField(
        label=gettext_lazy("Answer"), help_text=gettext_lazy("JSON that fits what is asked for.")
    )
    _unnamed_field = "answer"

    def payload(self) -> Any:
        return self.cleaned_data["answer"]

    def refuse(self, error: StepHooksError) -> bool:
        if isinstance(error, InvalidPayloadError):
            # Its paths are those within the JSON, even one that is called "answer".
            for path, messages in error.errors.items():
                prefix = "" if path == "__all__" else f"{path}: "
                self.add_error("answer", [printable_text(prefix + message) for message in messages])
            return True
        return super().refuse(error)


class PropertiesForm(Answering, forms.Form):
    """The properties of a pydantic model."""

    # Set by the subclass that each model is given.
    schema: Any
    properties: dict[str, Asked]

    def clean(self) -> Any:
        cleaned = super().clean()
        if not self.errors:
            try:
                payloads.validate(self.schema, self.payload())
            except InvalidPayloadError as error:
                self.refuse(error)
        return cleaned

    def payload(self) -> Any:
        values = {name: asked.in_payload(self.cleaned_data[name]) for name, asked in self.properties.items()}
        return {name: value for name, value in values.items() if value is not OMITTED}


class _DjangoForm(Answering):
    """A schema that is a Django form is asked as it is."""

    def payload(self) -> Any:
        """Of the single fields, before the form makes something else of them: it is cleaned again later."""
        found: dict[str, Any] = {}
        for name, bound in self._bound_items():  # type: ignore[attr-defined]
            field = bound.field
            parts: Any = field.widget
            if isinstance(parts, forms.MultiWidget):
                for suffix, widget in zip(parts.widgets_names, parts.widgets, strict=True):  # type: ignore[attr-defined]
                    at = f"{bound.html_name}{suffix}"
                    found[f"{name}{suffix}"] = widget.value_from_datadict(self.data, self.files, at)
            else:
                value = bound.initial if field.disabled else bound.data
                found[name] = as_json(field, field.clean(value))
        return found


def answer_form(hook: Hook, who: Any, data: Any = None) -> Any:
    """The form by which `who` (a user, or a name) answers this hook; bound to what was sent, if anything was.

    It is a `forms.Form` and an `Answering`.
    """
    if not hook.schema:
        return DecisionForm(who, data)
    try:
        schema = payloads.load_schema(hook.schema)
    except StepHooksError:
        # Whoever answers is told so by the service.
        return PayloadForm(who, data)
    if issubclass(schema, forms.BaseForm):
        form = type(schema)(schema.__name__, (_DjangoForm, schema), {"__module__": __name__})
        return form(who, data)
    properties = properties_of(schema)
    if properties is None:
        return PayloadForm(who, data)
    members = {"schema": schema, "properties": properties, "__module__": __name__}
    made: Any = type(schema.__name__, (PropertiesForm,), members)
    # Not among the members: the names of properties need not be those of attributes.
    made.base_fields = {name: asked.field for name, asked in properties.items()}
    return made(who, data)


def verdict(hook: Hook, who: Any, *, approved: bool, comment: str) -> Any:
    """The payload that the page's button would send with this comment; for doors that have no form.

    A schema that asks for something else refuses it with its own words.
    """
    data = {"decision": "approve" if approved else "reject", "comment": comment}
    form = answer_form(hook, who, data)
    if form.has_verdict and form.is_valid():
        return form.payload()
    return {"approved": approved, "comment": comment, "reviewer": form.who}


def _is_yes_or_no(field: forms.Field | None) -> bool:
    return isinstance(field, forms.BooleanField) and not isinstance(field, forms.NullBooleanField)


def _with_plain_newlines(data: Any) -> Any:
    """A copy, in which lines end as they do in a payload that came another way."""
    found = data.copy()
    for name in list(found):
        if hasattr(found, "setlist"):
            found.setlist(name, [_plain(value) for value in found.getlist(name)])
        else:
            found[name] = _plain(found[name])
    return found


def _plain(value: Any) -> Any:
    return value.replace("\r\n", "\n") if isinstance(value, str) else value
