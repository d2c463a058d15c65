"""Small pieces of markup for lists and pages alike: a time, and a status as a dot and a word."""

from __future__ import annotations

from datetime import datetime

from django.utils import formats
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.timesince import timesince, timeuntil
from django.utils.translation import gettext as _

from django_stephooks.models import Hook, Run

from .values import local_time


def moment(value: datetime | None) -> str:
    """A time for people and, in its attribute, for machines."""
    if value is None:
        return "-"
    local = local_time(value)
    return format_html(
        '<time datetime="{}">{}</time>', local.isoformat(), formats.date_format(local, "DATETIME_FORMAT")
    )


def deadline(value: datetime | None, *, now: datetime) -> str:
    """A time, and how far away it is."""
    if value is None:
        return _("none")
    if value > now:
        distance = _("in %(time)s") % {"time": timeuntil(value, now)}
    else:
        distance = _("%(time)s ago") % {"time": timesince(value, now)}
    return format_html(
        '{} <span class="stephooks-distance" data-stephooks-until="{}">({})</span>',
        moment(value),
        value.isoformat(),
        distance,
    )


def hook_status(hook: Hook, *, now: datetime, approved: bool | None = None) -> SafeString:
    """What became of a question. A list does not load answers, so it says "answered" for `approved=None`."""
    if hook.status == Hook.Status.RECEIVED:
        words = {True: _("approved"), False: _("rejected"), None: _("answered")}
        kinds = {True: "approved", False: "rejected", None: "answered"}
        return status(kinds[approved], words[approved])
    if hook.is_past_deadline(now):
        return status("expired", _("expired"))
    if hook.is_overdue(now):
        return status("overdue", _("overdue"))
    if hook.status == Hook.Status.PENDING:
        return status("waiting", _("waiting"))
    return status(hook.status, hook.get_status_display())


def run_status(run: Run) -> SafeString:
    return status(run.status, run.get_status_display())


def status(kind: str, word: str) -> SafeString:
    """A dot, of the color of this kind, and a word."""
    return format_html('<span class="stephooks-status stephooks-status--{}">{}</span>', kind, capfirst(word))
