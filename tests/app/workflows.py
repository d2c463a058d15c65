"""Workflows that the package finds by itself, because this module is called so."""
