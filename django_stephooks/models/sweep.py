"""Sweep: the one row that says when deadlines were last enforced."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Sweep(models.Model):
    """Kept by `services.sweep`, read by the system check, the admin and the doctor."""

    last_swept_at = models.DateTimeField(_("last swept at"))

    class Meta:
        verbose_name = _("sweep")
        verbose_name_plural = _("sweeps")
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.last_swept_at:%Y-%m-%d %H:%M:%S %Z}"
