"""The addresses of a site with two admins: the stock one and its own."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

from django_stephooks.admin import HookAdmin, RunAdmin
from django_stephooks.models import Hook, Run

desk = admin.AdminSite(name="desk")
desk.register(Hook, HookAdmin)
desk.register(Run, RunAdmin)

urlpatterns = [path("admin/", admin.site.urls), path("desk/", desk.urls)]
