"""Which adapter leaves the host tier when another one needs its place.

prio(k) = w1 * frequency + w2 * strictness - w3 * cost + w4 * recency; the lowest leaves. Frequency is requests a second over
five minutes, strictness 1 / SLO seconds of the strictest tenant that may use it, cost its share of the tier's bytes, recency
falls from 1 to 0 over the five minutes after the last use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from catalog.durations import MINUTE_NS, SECOND_NS

WINDOW_NS: Final = 5 * MINUTE_NS
SLOT_NS: Final = 10 * SECOND_NS
SETTLING_NS: Final = 5 * SECOND_NS
"""An adapter just loaded leaves only when everything else is busy or warm: two adapters must not push each other out in turn."""
W_FREQUENCY: Final = Fraction(1)
W_STRICTNESS = W_COST = W_RECENCY = Fraction(1, 10)

HIT: Final = "hit"
MISS: Final = "miss"
EVICT: Final = "evict"


@dataclass(frozen=True, slots=True)
class Recent:
    """Requests of the last five minutes, counted in slots of ten seconds: (slot, count), oldest first."""

    slots: tuple[tuple[int, int], ...] = ()

    def hit(self, now_ns: int) -> Recent:
        """One more request at `now_ns`."""
        slot = now_ns // SLOT_NS
        kept = tuple(s for s in self.slots if s[0] > slot - WINDOW_NS // SLOT_NS)
        if kept and kept[-1][0] == slot:
            return Recent((*kept[:-1], (slot, kept[-1][1] + 1)))
        return Recent((*kept, (slot, 1)))

    def per_second(self, now_ns: int) -> Fraction:
        """Requests a second over the window that ends now."""
        oldest = now_ns // SLOT_NS - WINDOW_NS // SLOT_NS
        return Fraction(sum(count for slot, count in self.slots if slot > oldest) * SECOND_NS, WINDOW_NS)


@dataclass(frozen=True, slots=True)
class Resident:
    """One adapter version in the host tier. `strictness` is 1 / SLO seconds."""

    served_name: str
    size_bytes: int
    loaded_ns: int
    used_ns: int
    strictness: Fraction = Fraction(0)
    recent: Recent = Recent()
    in_flight: int = 0
    warm: bool = False

    def hit(self, now_ns: int) -> Resident:
        """This adapter, used by one more request at `now_ns`."""
        return replace(self, used_ns=now_ns, recent=self.recent.hit(now_ns), in_flight=self.in_flight + 1)


def priority(one: Resident, tier_bytes: int, now_ns: int) -> Fraction:
    """How much the tier would miss `one`; higher stays longer."""
    age = min(max(0, now_ns - one.used_ns), WINDOW_NS)
    return (
        W_FREQUENCY * one.recent.per_second(now_ns)
        + W_STRICTNESS * one.strictness
        - W_COST * Fraction(one.size_bytes, max(1, tier_bytes))
        + W_RECENCY * Fraction(WINDOW_NS - age, WINDOW_NS)
    )


def victim(tier: Iterable[Resident], now_ns: int, *, spare_warm: bool = False) -> str | None:
    """Whom to evict: never one in use, a warm one last, one just loaded before that; None when all are in use.

    `spare_warm` is for loads that nobody waits for: they take no warm adapter's place.
    """
    all_of_it = tuple(tier)
    total = sum(one.size_bytes for one in all_of_it)
    idle = [one for one in all_of_it if not one.in_flight and not (spare_warm and one.warm)]
    if not idle:
        return None

    def order(one: Resident) -> tuple[bool, bool, Fraction, int, str]:
        settling = now_ns - one.loaded_ns < SETTLING_NS
        return one.warm, settling, priority(one, total, now_ns), one.used_ns, one.served_name

    return min(idle, key=order).served_name
