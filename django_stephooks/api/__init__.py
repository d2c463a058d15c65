"""The REST API of the review desk: include `django_stephooks.api.urls`. Needs Django REST framework."""
