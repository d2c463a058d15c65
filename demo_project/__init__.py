"""A newsroom whose stories stop for their editor: ``python -m demo_project`` opens it."""
