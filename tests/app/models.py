"""What the tests' runs are about."""

from django.conf import settings
from django.db import models


class Article(models.Model):
    """Something a run can have as its subject, with somebody whom it belongs to."""

    title = models.CharField(max_length=200)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.CASCADE)

    def __str__(self) -> str:
        return self.title
