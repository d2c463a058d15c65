"""Chunk: a piece of what a run emits while it works, where there is no Redis to keep it."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from .run import Run


class Chunk(models.Model):
    """An entry of a run's stream; `data` is JSON as it is sent to whoever watches."""

    run = models.ForeignKey(
        Run,
        on_delete=models.CASCADE,
        related_name="chunks",
        db_index=False,
        verbose_name=_("run"),
    )
    number = models.PositiveIntegerField(_("number"))
    kind = models.CharField(_("kind"), max_length=10)
    data = models.TextField(_("data"))

    class Meta:
        verbose_name = _("chunk")
        verbose_name_plural = _("chunks")
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["run", "number"], name="stephooks_chunk_number")]

    def __str__(self) -> str:
        return f"{self.kind} {self.number}"
