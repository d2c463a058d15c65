"""`manage.py stephooks_…`."""
