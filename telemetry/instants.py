"""Which instants an event can have: neither before 2020 nor far in the future. No I/O."""

from __future__ import annotations

from typing import Final

from catalog.durations import DAY_NS, SECOND_NS

OLDEST_NS: Final = 1_577_836_800 * SECOND_NS
"""2020-01-01 UTC: nothing that is billed is older, so an instant before it is a broken clock."""

AHEAD_NS: Final = DAY_NS
"""Clocks differ; one that is further ahead than this is broken."""


def misplaced(name: str, at_ns: int, now_ns: int) -> list[str]:
    """Why the instant cannot be that of an event: before 2020, or more than a day ahead of `now_ns`. Empty when it can."""
    if at_ns < OLDEST_NS:
        return [f"{name} {at_ns} is before 2020"]
    if at_ns > now_ns + AHEAD_NS:
        return [f"{name} {at_ns} is in the future"]
    return []
