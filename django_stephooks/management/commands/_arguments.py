"""Command-line values that more than one command takes."""

from __future__ import annotations

from argparse import ArgumentTypeError

from django_stephooks.durations import parse_duration


def positive_seconds(text: str) -> float:
    """ "5", "0.5" or "1m", as seconds."""
    try:
        return parse_duration(float(text) if text.replace(".", "", 1).isdigit() else text).total_seconds()
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


def count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least 1.")
    return int(text)
