"""JSON bodies, read fast enough for one that is as large as the gateway takes.

Reading and writing JSON keep the interpreter to themselves from beginning to end, ours and vLLM's alike, so a thread alone does
not keep the event loop going: what a large body may hold is bounded as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from catalog.patterns import Matcher

LARGE: Final = 1 << 16
"""Bytes below which nothing can take long."""
MAX_MARKS: Final = 100_000
"""Beginnings of lists and objects, and names in objects, also such as are only text."""
MAX_VALUES: Final = 200_000
"""Values other than whole numbers; of those there may be a prompt's worth."""
MAX_DECIMALS: Final = 400_000
"""Numbers with a point or an exponent, also such as are only text: the slowest of all values to read."""
MAX_ITEMS: Final = 1_250_000
"""Commas, also such as are only text: more token ids than any prompt has."""
_DECIMALS: Final = tuple(f"{digit}{mark}".encode() for digit in range(10) for mark in ".eE")
_SPACED: Final = Matcher(r'"[ \t\r\n]+:')


class TooIntricate(ValueError):
    """The body has more structure than any request needs."""


def decode(raw: bytes) -> Any:
    """The value of a JSON text in UTF-8. TooIntricate, RecursionError, or another ValueError on what is none."""
    if len(raw) > LARGE and (_marks(raw) > MAX_MARKS or _decimals(raw) > MAX_DECIMALS or raw.count(b",") > MAX_ITEMS):
        raise TooIntricate
    value = msgspec.json.decode(raw)
    if len(raw) > LARGE and sum(_values(value)) > MAX_VALUES:
        raise TooIntricate
    return value


def _marks(raw: bytes) -> int:
    names = raw.count(b":") if _SPACED.found_in(raw) else raw.count(b'":')
    return names + raw.count(b"[") + raw.count(b"{")


def _decimals(raw: bytes) -> int:
    most = raw.count(b".") + raw.count(b"e") + raw.count(b"E")
    # Counted one by one, so that other threads come in between.
    return sum(raw.count(mark) for mark in _DECIMALS) if most > MAX_DECIMALS else most


def _values(value: Any) -> Iterator[int]:
    """How many values other than whole numbers each list and object of `value` holds itself."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        items = inner.values() if isinstance(inner, dict) else inner
        others = [item for item in items if type(item) is not int] if isinstance(inner, dict | list) else []
        yield len(others)
        waiting.extend(item for item in others if isinstance(item, dict | list))
