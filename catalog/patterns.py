"""Patterns that are matched in time linear in the text (RE2's), for routing rules and for checking them: one engine for both."""

from __future__ import annotations

from typing import Final

import re2

MAX_PATTERN: Final = 1_000
"""Characters of a pattern."""
MAX_PROGRAM: Final = 2_500
"""Instructions that a pattern may compile to: with the bound on the text, this bounds the time of a search."""

_BEYOND: Final = ("invalid escape sequence", "invalid perl operator")


class PatternInvalid(ValueError):
    """The pattern cannot be used; the message says why."""


class Matcher:
    """A compiled pattern. Safe to use from any thread; a search lets other threads run.

    Raises PatternInvalid when it is no pattern, needs backtracking or compiles to too many instructions.
    """

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN:
            raise PatternInvalid(f"the pattern has {len(pattern)} characters; at most {MAX_PATTERN} are allowed")
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        try:
            self._compiled = re2.compile(pattern, options)
        except UnicodeEncodeError as error:
            raise PatternInvalid("the pattern holds half of a surrogate pair") from error
        except re2.error as error:
            raise PatternInvalid(_words(error)) from error
        if (size := self._compiled.programsize) > MAX_PROGRAM:
            raise PatternInvalid(f"the pattern compiles to {size} instructions; at most {MAX_PROGRAM} are allowed")

    def found_in(self, text: bytes) -> bool:
        """Whether the pattern occurs anywhere in this UTF-8 text."""
        return self._compiled.search(text) is not None


def _words(error: Exception) -> str:
    raw = error.args[0] if error.args else ""
    said = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
    hint = (
        " (patterns are RE2's, matched in linear time: no backreferences, lookahead or lookbehind)"
        if said.startswith(_BEYOND)
        else ""
    )
    return f"not a pattern: {said}{hint}"
