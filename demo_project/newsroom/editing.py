"""What a newspaper does to a text before anyone reads it: house style and a fact check.

The fact check is an imitation: it only finds what a person would have to look up.
"""

from __future__ import annotations

import re
from typing import TypedDict

OPEN, CLOSE = "\N{LEFT SINGLE QUOTATION MARK}", "\N{RIGHT SINGLE QUOTATION MARK}"
OPEN_DOUBLE, CLOSE_DOUBLE = "\N{LEFT DOUBLE QUOTATION MARK}", "\N{RIGHT DOUBLE QUOTATION MARK}"
DASH = "\N{EM DASH}"

_NUMBER_WORD = (
    r"(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|score|dozen|hundred|thousand"
    r"|million|\w+teen|(?:twen|thir|for|fif|six|seven|eigh|nine)ty)"
)
NUMBER = re.compile(rf"\b(?:\d[\d,.]*\d|\d|{_NUMBER_WORD}(?:[ -]{_NUMBER_WORD})*)\b", re.IGNORECASE)
# A full stop after an initial or a title ends no sentence.
SENTENCE_END = re.compile(rf"(?<!\bMr)(?<!\bDr)(?<!\bMrs)(?<!\b[A-Z])[.!?:][{CLOSE}{CLOSE_DOUBLE}]*\s+")
_CAPITALIZED = rf"[A-Z][\w{CLOSE}-]*\.?"
NAME = re.compile(rf"\b(?!I\b){_CAPITALIZED}(?:\s+{_CAPITALIZED})*")
# What a sentence begins with, even after an opening quotation mark, has a capital anyway.
FIRST_WORD = re.compile(r"^\W*\w+")


class Facts(TypedDict):
    """What has to be looked up before a text may be printed."""

    words: int
    numbers: list[str]
    names: list[str]


def house_style(manuscript: str) -> str:
    """Turn typewriter punctuation into a printer's: dashes, quotation marks, single spaces."""
    text = re.sub(r"[ \t]+", " ", manuscript.strip())
    text = re.sub(r" ?-- ?", DASH, text)
    text = re.sub(rf'(^|[\s({DASH}])"', rf"\1{OPEN_DOUBLE}", text).replace('"', CLOSE_DOUBLE)
    text = re.sub(rf"(^|[\s({DASH}{OPEN_DOUBLE}])'", rf"\1{OPEN}", text)
    return text.replace("'", CLOSE)


def find_facts(text: str) -> Facts:
    """Find the numbers and the names in a text, each once, in order of appearance."""
    names: list[str] = []
    for sentence in SENTENCE_END.split(text):
        found = NAME.findall(FIRST_WORD.sub("", sentence))
        names += [name.rstrip(".") for name in found]
    return {
        "words": len(text.split()),
        "numbers": list(dict.fromkeys(NUMBER.findall(text))),
        "names": list(dict.fromkeys(names)),
    }
