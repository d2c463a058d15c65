"""StepCheckpoint: what a step saved of its state, to find it again when it runs again."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from .fields import CompressedRecordField
from .run import Run


class StepCheckpoint(models.Model):
    """One per step call; saving overwrites."""

    run = models.ForeignKey(
        Run,
        on_delete=models.CASCADE,
        related_name="checkpoints",
        db_index=False,
        verbose_name=_("run"),
    )
    call = models.CharField(_("call"), max_length=400)
    data = CompressedRecordField(_("data"))
    # How many chunks the step had emitted by then; what comes next goes on from there.
    emitted = models.PositiveIntegerField(_("emitted"), default=0, db_default=0)
    saved_at = models.DateTimeField(_("saved at"))

    class Meta:
        verbose_name = _("step checkpoint")
        verbose_name_plural = _("step checkpoints")
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["run", "call"], name="stephooks_checkpoint_call")]

    def __str__(self) -> str:
        return self.call
