"""Tally: up to where the journal has been counted, and what came of it."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_stephooks.models.fields import RecordField


class Tally(models.Model):
    """One row. Counters must not fall when runs are pruned, so their values are kept.

    `counted_to` is the last event in `totals`. `seen_to` was the last event there was at `seen_at`.
    `oldest_hook`: no hook before this one waits.
    """

    counted_to = models.BigIntegerField(_("counted to"))
    seen_to = models.BigIntegerField(_("seen to"))
    seen_at = models.DateTimeField(_("seen at"))
    oldest_hook = models.BigIntegerField(_("oldest hook"), default=0)
    totals = RecordField(_("totals"), default=dict)

    class Meta:
        verbose_name = _("tally")
        verbose_name_plural = _("tallies")
        default_permissions = ()

    def __str__(self) -> str:
        return f"counted to event {self.counted_to}"
