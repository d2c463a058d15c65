"""Many at once: what threads with connections of their own may do to one run."""
