"""Values that travel as JSON (one line, keys in the order of the fields, null for what is not known), and the instants they may have. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any, Final, Self

import msgspec

from catalog.durations import DAY_NS, SECOND_NS

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A whole number that a database column takes."""
MOST: Final = 2**31 - 1
"""The largest count (of GPUs, of attempts) that a database column takes."""
OLDEST_NS: Final = 1_577_836_800 * SECOND_NS
"""2020-01-01 UTC: nothing that is billed is older, so an instant before it is a broken clock."""
AHEAD_NS: Final = DAY_NS
"""Clocks differ; one that is further ahead than this is broken."""
_ENCODER: Final = msgspec.json.Encoder()


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A frozen value with a JSON form in ASCII."""

    def to_json(self) -> str:
        """One line of JSON."""
        return json_line(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read one line of JSON in UTF-8; a field that has a default may be left out.

        ValueError, with the place, on a missing or unknown field, a value of another type, an integer of more than 64 bits, and
        half a surrogate pair, which UTF-8 cannot hold. Nothing is converted: 5.0 is no integer, and "5" and true are none.
        """
        try:
            value: Self = _decoder(cls).decode(text)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from error
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            raise ValueError(f"not JSON in UTF-8, or half a surrogate pair: {error}") from error
        return value


def json_line(value: Any) -> str:
    """One line of JSON in ASCII, with everything beyond it as `\\u....`. Half a surrogate pair is allowed; a float is finite."""
    try:
        text = _ENCODER.encode(value).decode()
    except UnicodeEncodeError:
        text = ""
    if text and text.isascii() and "\x7f" not in text:
        return text
    return json.dumps(msgspec.to_builtins(value), separators=(",", ":"))


@cache
def _decoder(kind: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def negatives(value: Any, place: str = "") -> list[str]:
    """Every number below 0 in a value, whatever its depth, by its place: amounts of time, tokens and instants have none."""
    if isinstance(value, int):
        return [f"{place} is negative ({value})"] if value < 0 else []
    if isinstance(value, msgspec.Struct):
        inside: Iterable[tuple[Any, Any]] = ((name, getattr(value, name)) for name in value.__struct_fields__)
    elif isinstance(value, dict):
        inside = value.items()
    else:
        inside = enumerate(value) if isinstance(value, tuple) else ()
    return [wrong for name, part in inside for wrong in negatives(part, f"{place}.{name}" if place else str(name))]


def misplaced(name: str, at_ns: int, now_ns: int) -> list[str]:
    """Why the instant cannot be that of an event: before 2020, or more than a day ahead of `now_ns`. Empty when it can."""
    if at_ns < OLDEST_NS:
        return [f"{name} {at_ns} is before 2020"]
    if at_ns > now_ns + AHEAD_NS:
        return [f"{name} {at_ns} is in the future"]
    return []
