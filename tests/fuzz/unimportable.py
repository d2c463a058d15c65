"""A module that ends the process of whoever imports it."""

raise SystemExit("imported")
