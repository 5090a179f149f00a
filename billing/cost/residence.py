"""How long adapters were in engines, from what the meter saw: the byte-hours by which idle time can be shared. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Move(NamedTuple):
    """An adapter of so many bytes came into an engine process at that instant (UTC ns), or left it."""

    emitter: str
    adapter: str
    at_ns: int
    came: bool
    size_bytes: int = 0


def byte_ns(moves: Iterable[Move], ends: Mapping[str, int], start_ns: int, end_ns: int) -> Counter[str]:
    """Bytes x nanoseconds of each adapter in [start_ns, end_ns), on all engines together.

    A stay lasts from a load until the adapter left, was loaded again, or its process said its last word (`ends`).
    """
    here: dict[tuple[str, str], Move] = {}
    held = Counter[str]()

    def left(move: Move, until_ns: int) -> None:
        first, last = max(move.at_ns, start_ns), min(until_ns, end_ns)
        if first < last:
            held[move.adapter] += move.size_bytes * (last - first)

    for move in sorted(moves, key=lambda move: (move.at_ns, move.came)):
        place = move.emitter, move.adapter
        if (before := here.pop(place, None)) is not None:
            left(before, move.at_ns)
        if move.came:
            here[place] = move
    for move in here.values():
        left(move, ends[move.emitter])
    return held
