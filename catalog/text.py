"""Which text a document can hold: what XML 1.0 forbids, what no font shows and what only deceives the reader is refused."""

from __future__ import annotations

import unicodedata
from typing import Final

_REFUSED: Final = {
    "Cc": "a control character",
    "Cf": "an invisible format character",
    "Cs": "half of a surrogate pair",
    "Co": "a private-use character",
    "Cn": "a code point that is no character",
    "Zl": "a line separator",
    "Zp": "a paragraph separator",
}
_MARKS: Final = frozenset("\u200c\u200d\u200e\u200f\u061c")
"""Format characters that some scripts cannot be written without: joiners and marks of direction."""
_FILLERS: Final = frozenset("\u115f\u1160\u3164\uffa0")
"""Letters to Unicode, nothing to the eye."""


def text_fault(text: str, *, lines: bool = False) -> str | None:
    """What is wrong with a text for people, in words; None when nothing is. `lines` allows line feeds."""
    if not text.strip():
        return "must not be empty or blank"
    if not lines and text != text.strip():
        return "must not begin or end with white space"
    for at, char in enumerate(text, 1):
        if (kind := _refused(char, lines=lines)) is not None:
            return f"character {at} is {codepoint(char)}, {kind}: no document can hold it"
    if not any(unicodedata.category(char)[0] in "LN" and char not in _FILLERS for char in text):
        return "must contain a letter or a digit"
    return None


def unprintable(text: str) -> list[str]:
    """The characters that no document can hold, whatever its fonts, as `U+001B, a control character`; each once, in order."""
    found = ((char, _refused(char, lines=True)) for char in dict.fromkeys(text))
    return [f"{codepoint(char)}, {kind}" for char, kind in found if kind is not None]


def codepoint(char: str) -> str:
    """A character as people look it up: `U+001B`."""
    return f"U+{ord(char):04X}"


def _refused(char: str, *, lines: bool) -> str | None:
    return None if char in _MARKS or (lines and char == "\n") else _REFUSED.get(unicodedata.category(char))
