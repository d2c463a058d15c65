"""Runs that earlier releases left waiting, and that this one must bring to their end. See README.md."""
