"""Who had each moment between two steps: adapter loads before idle time, idle time before the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from serving.metering.events import LoadSpan


class Owner(Enum):
    """Whose the time between steps is, when no adapter was being loaded."""

    IDLE = "idle"
    LOOP = "loop"
    METER = "meter"
    INTAKE = "intake"
    UTILITY = "utility"
    NOBODY = "nobody"
    """Unattributed: no cause was seen."""


class Cover(NamedTuple):
    """[start_ns, end_ns) has this owner, as far as no load and no step takes it."""

    start_ns: int
    end_ns: int
    owner: Owner


Piece = tuple[int, int, Owner | LoadSpan]


def lay(start_ns: int, end_ns: int, spans: Sequence[LoadSpan], covers: Iterable[Cover], rest: Owner) -> list[Piece]:
    """Cut [start, end) into pieces without gaps: `spans` first, then `covers`, then `rest`. Both come in order of time."""
    pieces: list[Piece] = []
    at = start_ns
    for span in spans:
        if span.end_ns <= start_ns or span.start_ns >= end_ns:
            continue
        pieces += _lay_covers(at, max(at, span.start_ns), covers, rest)
        at = max(at, span.start_ns)
        until = min(span.end_ns, end_ns)
        pieces.append((at, until, span))
        at = until
    pieces += _lay_covers(at, end_ns, covers, rest)
    return pieces


def _lay_covers(start_ns: int, end_ns: int, covers: Iterable[Cover], rest: Owner) -> list[Piece]:
    pieces: list[Piece] = []
    at = start_ns
    for cover in covers:
        begin, until = max(cover.start_ns, at), min(cover.end_ns, end_ns)
        if begin >= until:
            continue
        if begin > at:
            pieces.append((at, begin, rest))
        pieces.append((begin, until, cover.owner))
        at = until
    if at < end_ns:
        pieces.append((at, end_ns, rest))
    return pieces


def first_fault(spans: Sequence[LoadSpan], cursor_ns: int) -> str | None:
    """What is wrong with spans, in order of time, that must all lie at or after the cursor; None when nothing is."""
    at = cursor_ns
    for span in spans:
        if span.end_ns < span.start_ns:
            return f"{span.kind} of {span.adapter} ends {span.start_ns - span.end_ns} ns before it starts"
        if span.start_ns < at:
            return f"{span.kind} of {span.adapter} starts {at - span.start_ns} ns inside time that is already taken"
        at = span.end_ns
    return None
