"""Text for columns of plain text: refused at the edge if a database could not store it."""

from __future__ import annotations

from typing import Any

from .exceptions import SerializationError


def plain_text(value: Any, name: str, *, max_length: int | None = None) -> str:
    """The text itself; SerializationError names what is wrong with it.

    NUL characters and lone surrogates can not stand in a text column on every database.
    """
    # Lazy translations and safe strings are fine here: a title is only ever shown.
    text = str.__str__(value) if isinstance(value, str) else str(value)
    for position, character in enumerate(text):
        if character == "\x00" or "\ud800" <= character <= "\udfff":
            raise SerializationError(
                f"{name}: the character U+{ord(character):04X} at position {position} can not be stored; "
                "remove it."
            )
    if max_length is not None and len(text) > max_length:
        raise SerializationError(
            f"{name}: {len(text)} characters are too long; at most {max_length} are stored."
        )
    return text
