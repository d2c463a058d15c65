"""The page that sends new links: the old ones end, and whoever was mailed one is mailed again."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_stephooks.exceptions import StepHooksError
from django_stephooks.models import Hook
from django_stephooks.review import marks
from django_stephooks.review.answers import kindly
from django_stephooks.review.mailed import mailed
from django_stephooks.review.values import printable_text
from django_stephooks.services.links import mail_runs, send_new_links
from django_stephooks.services.rules import REVIEW, refusal

from .acting import RowAction


class SendNewLinks(RowAction):
    name = "links"
    permission = REVIEW
    template = "django_stephooks/admin/hook_links.html"

    def title(self, row: Hook) -> str:
        return _("Send new links: %(question)s") % {"question": printable_text(row)}

    def refusal(self, user: Any, row: Hook) -> str:
        if settled := refusal(row, row.run, timezone.now()):
            return kindly(type(settled), str(settled), row)
        return "" if mail_runs(row).exists() else _("Nobody was mailed a link to this question.")

    def act(self, user: Any, row: Hook, data: dict[str, Any]) -> str:
        count = len(send_new_links(row, by=user))
        # Not to whom: whoever may see the row may see its history.
        said = ngettext("Sent %(count)d new link.", "Sent %(count)d new links.", count)
        return said % {"count": count}

    def why(self, error: StepHooksError, row: Hook) -> str:
        return kindly(type(error), str(error), row)

    def context(self, row: Hook) -> dict[str, Any]:
        now = timezone.now()
        return {"status_mark": marks.hook_status(row, now=now), "mailed": mailed(row)}
