"""Stories in the admin: for the superuser, who may also mend what goes wrong with one."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest

from .models import LogLine, Story


class LogLineInline(admin.TabularInline):
    model = LogLine
    extra = 0
    fields = readonly_fields = ("at", "step", "mark", "remark", "process_id")
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Story | None = None) -> bool:
        return False


@admin.register(Story)
class StoryAdmin(admin.ModelAdmin):
    list_display = ("headline", "stage", "author", "created_at")
    list_filter = ("status", "policy")
    list_select_related = ("run", "author")
    search_fields = ("headline", "byline")
    readonly_fields = (
        "text",
        "facts",
        "status",
        "verdict",
        "decided_by",
        "author",
        "run",
        "created_at",
        "published_at",
    )
    inlines = (LogLineInline,)

    def has_add_permission(self, request: HttpRequest) -> bool:
        # A story that nobody handed in would have no run: they are started on the front page.
        return False
