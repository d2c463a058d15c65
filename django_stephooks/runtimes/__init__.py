"""How a ready run gets somebody to work on it: the only modules that know about RQ and Redis."""
