"""Whether a tenant's month has money left for one more request. No I/O: time is passed in, money is exact.

What a month has come to is the sum of three parts that have nothing in common: the figure that the ledger published, the
charges of this process's own attempts that are not in that figure, and holds for those that still run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Final

from catalog.durations import MINUTE_NS
from serving.policy.admission import IN_FLIGHT_RETRY_S, Ask, Misfit, QuotaRefusal
from serving.policy.charges import Terms, charge, hold
from telemetry.usage import UsageRecord

REASON: Final = "monthly_budget"
LATE_NS: Final = 10 * MINUTE_NS
"""An attempt that figures of this much later still lack never reached the ledger, and is written off."""
DEFAULT_NS_PER_TOKEN: Final = 10_000_000
"""Engine time held per asked token while the tenant has no measured attempt to go by."""
RECENT_TOKENS: Final = 1 << 20
"""About so many of the latest tokens say what engine time a token takes."""
MOST_KNOWN: Final = 100_000
"""Attempts that are told apart; beyond, the oldest minutes are kept as sums, which only time can write off."""
_SUMMED: Final = -1


@dataclass(frozen=True, slots=True)
class Published:
    """What the ledger has charged a tenant in `month` up to `at_ns` (UTC), and which of this process's attempts are in it.

    `counted` are ranges [first, last] of attempt numbers, ascending.
    """

    at_ns: int
    month: str
    charged: Fraction
    counted: tuple[tuple[int, int], ...] = ()

    def among(self, seqs: Collection[int]) -> list[int]:
        """Those of the attempts that are in the figures."""
        if self._counts(min(seqs), max(seqs)):
            return list(seqs)
        return [seq for seq in seqs if self._counts(seq, seq)]

    def _counts(self, first: int, last: int) -> bool:
        """Whether one range holds all from `first` to `last`."""
        place = bisect_right(self.counted, first, key=lambda span: span[0]) - 1
        return place >= 0 and last <= self.counted[place][1]


@dataclass(slots=True)
class _Minute:
    """Own charges of attempts that ended in one minute, by attempt, and their sum."""

    charges: dict[int, Fraction] = field(default_factory=dict)
    total: Fraction = Fraction(0)

    def put(self, seq: int, amount: Fraction) -> None:
        self.charges[seq] = amount
        self.total += amount

    def drop(self, seqs: Collection[int]) -> Fraction:
        """Let go of those attempts; what they came to."""
        before = self.total
        if len(seqs) == len(self.charges):
            self.charges, self.total = {}, Fraction(0)
        else:
            self.total -= sum((self.charges.pop(seq) for seq in seqs), Fraction(0))
        return before - self.total


class Account:
    """One tenant's running month as this process knows it; it keeps sums, so that asking costs the same whatever it holds.

    `now_ns` is UTC, `mono_ns` monotonic: holds expire by the one, months turn by the other.
    """

    def __init__(self) -> None:
        self.written_off = 0
        """Holds that expired and charges that no figure ever had: the ledger and this process disagreed so often."""
        self._figures: Published | None = None
        self._holds: dict[int, tuple[Fraction, int]] = {}
        self._held = Fraction(0)
        self._month = ""
        self._own: dict[tuple[str, int], _Minute] = {}
        self._charged: dict[str, Fraction] = {}
        self._known = 0
        self._gpu_ns, self._tokens = 0, 0

    def learn(self, figures: Published) -> None:
        """Go by these figures from now on, unless newer ones are known; own attempts that are in them are let go."""
        if self._figures is not None and figures.at_ns < self._figures.at_ns:
            return
        self._figures = figures
        for (month, minute_ns), minute in list(self._own.items()):
            gone = figures.among(minute.charges) if figures.month >= month else []
            if figures.at_ns >= minute_ns + MINUTE_NS + LATE_NS:
                self.written_off += len(minute.charges.keys() - {_SUMMED, *gone})
                gone = list(minute.charges)
            self._known -= len(gone)
            self._charged[month] -= minute.drop(gone)
            if not minute.charges:
                del self._own[month, minute_ns]

    def spent(self, terms: Terms, now_ns: int, mono_ns: int) -> Fraction:
        """What the running month has come to, holds included."""
        self._expire(mono_ns)
        return self._settled(terms.months.month_of(now_ns)) + self._held

    def misfit(self, terms: Terms, ask: Ask, now_ns: int) -> Misfit | None:
        """Why a whole month's budget is too small for the request; None when it is not."""
        asked, budget = self._to_hold(terms, ask, now_ns), Fraction(terms.budget)
        return Misfit(REASON, f"it may take {_shown(asked)}, of {_shown(budget)}") if asked > budget else None

    def refusal(self, terms: Terms, ask: Ask, now_ns: int, mono_ns: int) -> QuotaRefusal | None:
        """Why there is no money for the request; None when there is. Takes nothing.

        It is worth asking again when the month turns, or soon if it is only requests in flight that stand in the way.
        """
        asked = self._to_hold(terms, ask, now_ns)
        spent, budget = self.spent(terms, now_ns, mono_ns), Fraction(terms.budget)
        if spent + asked <= budget:
            return None
        month = terms.months.month_of(now_ns)
        settled = self._settled(month)
        wait_s = IN_FLIGHT_RETRY_S if settled + asked <= budget else terms.months.seconds_left(now_ns)
        fact = (
            f"{_shown(settled)} charged in {month} and {_shown(spent - settled)} held for requests in flight, "
            f"this one may take {_shown(asked)}, of {_shown(budget)}"
        )
        return QuotaRefusal(REASON, max(1, wait_s), fact)

    def admit(self, terms: Terms, ask: Ask, seq: int, now_ns: int, expires_ns: int) -> None:
        """Hold what the request may take until it settles, or until `expires_ns` (monotonic) if it never does."""
        amount = self._to_hold(terms, ask, now_ns)
        self._holds[seq] = amount, expires_ns
        self._held += amount

    def settle(self, terms: Terms, seq: int, record: UsageRecord | None, now_ns: int) -> None:
        """Replace the hold by the attempt's charge; by itself while the engine's time is not known. None: nothing was booked."""
        held, _ = self._holds.pop(seq, (Fraction(0), 0))
        self._held -= held
        if record is None:
            return
        self._observe(record)
        amounts = charge(terms, record)
        if amounts is None:
            amounts = {terms.months.month_of(now_ns): held} if held else {}
        self._turn(terms.months.month_of(now_ns))
        for month, amount in amounts.items():
            if month >= self._month:
                self._own.setdefault((month, now_ns - now_ns % MINUTE_NS), _Minute()).put(seq, amount)
                self._charged[month] = self._charged.get(month, Fraction(0)) + amount
                self._known += 1
        if self._known > MOST_KNOWN:
            self._sum_up()

    def _to_hold(self, terms: Terms, ask: Ask, now_ns: int) -> Fraction:
        known = -(-self._gpu_ns // (self._tokens * terms.gpu_count)) if self._tokens else DEFAULT_NS_PER_TOKEN
        return hold(terms, ask, known, now_ns)

    def _settled(self, month: str) -> Fraction:
        figures = self._figures
        published = figures.charged if figures is not None and figures.month == month else Fraction(0)
        return published + self._charged.get(month, Fraction(0))

    def _expire(self, mono_ns: int) -> None:
        over = []
        for seq, (_, expires_ns) in self._holds.items():
            if expires_ns > mono_ns:
                break  # they lie in the order in which they expire
            over.append(seq)
        for seq in over:
            self._held -= self._holds.pop(seq)[0]
            self.written_off += 1

    def _observe(self, record: UsageRecord) -> None:
        """Learn what engine time a token takes."""
        tokens = (record.input_tokens or 0) + (record.output_tokens_computed or 0)
        gpu_ns = sum(part.base_ns + part.adapter_ns for part in record.slices or ()) * (record.gpu_count or 1)
        if not tokens or not gpu_ns:
            return
        self._gpu_ns, self._tokens = self._gpu_ns + gpu_ns, self._tokens + tokens
        if self._tokens > RECENT_TOKENS:
            self._gpu_ns, self._tokens = self._gpu_ns // 2, self._tokens // 2

    def _turn(self, month: str) -> None:
        """Forget months that are over."""
        if month <= self._month:
            return
        self._month = month
        for key in [key for key in self._own if key[0] < month]:
            self._known -= len(self._own.pop(key).charges)
        self._charged = {other: amount for other, amount in self._charged.items() if other >= month}

    def _sum_up(self) -> None:
        """Keep the oldest minute as a sum."""
        for minute in self._own.values():
            if len(minute.charges) > 1:
                self._known -= len(minute.charges) - 1
                minute.charges = {_SUMMED: minute.total}
                return


def _shown(amount: Fraction) -> str:
    """For people: cents, rounded."""
    return f"{Decimal(amount.numerator) / Decimal(amount.denominator):.2f}"
