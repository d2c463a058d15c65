"""The page that a personal link opens: `path("review/", include("django_stephooks.review.urls"))`."""

from __future__ import annotations

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from .views import review

app_name = "django_stephooks"


class WhateverConverter(StringConverter):
    """Any text: what a mail program made of a link, such as a line break at its end, is our own 404."""

    regex = r"[\s\S]*"


register_converter(WhateverConverter, "stephooks_whatever")

# A link ends with its token: a mail program might leave a slash out.
urlpatterns = [path("<stephooks_whatever:text>", review, name="review")]
