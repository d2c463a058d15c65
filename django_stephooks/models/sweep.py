"""Sweep: the one row that says when deadlines were last enforced."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.utils.translation import gettext_lazy as _


class Sweep(models.Model):
    """Kept by `services.sweep`, read by the system check, the admin and the doctor."""

    # Sweeps come every few seconds; a slow database or a deploy is no reason to complain.
    OVERDUE = timedelta(minutes=1)

    last_swept_at = models.DateTimeField(_("last swept at"))

    class Meta:
        verbose_name = _("sweep")
        verbose_name_plural = _("sweeps")
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.last_swept_at:%Y-%m-%d %H:%M:%S %Z}"
