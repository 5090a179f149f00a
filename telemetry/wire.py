"""What a JSON document may put into a field of our frozen values. Standard library only."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


def wrong_fields(value_of: Any) -> list[str]:
    """Fields of a dataclass whose value is not of the declared kind (int, str, with or without None), in words.

    JSON has no integers of its own, so 1.5 for nanoseconds would pass a constructor; and no database takes half a
    surrogate pair or more than 64 bits.
    """
    found: list[str] = []
    for field in fields(value_of):
        value = getattr(value_of, field.name)
        kind = str(field.type)
        if value is None:
            if "None" not in kind:
                found.append(f"{field.name} must not be null")
        elif kind.startswith("int"):
            if not is_int64(value):
                found.append(f"{field.name} must be a 64-bit integer, is {value!r}")
        elif kind.startswith("str") and not is_text(value):
            found.append(f"{field.name} must be a string, is {value!r}")
    return found


def is_int64(value: Any) -> bool:
    """A whole number that fits 64 bits; True and False are not numbers."""
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def is_text(value: Any) -> bool:
    """A string that can be encoded as UTF-8."""
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value))
