"""A small app of the kind that uses the package: one model, and workflows about it."""
