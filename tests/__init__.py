"""The tests, by behavior; each folder is one subject."""
