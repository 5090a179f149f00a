"""Every threshold, window and guard, as data: the one place to change them. Rules and boards both read it. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass, replace
from decimal import Decimal
from typing import Any, Final, Literal

from telemetry import names

MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
JOB: Final = "loraledger"
"""Scrape job of the gateways; `up` is judged for it."""
Severity = Literal["warning", "critical"]


class PromiseNotMeasured(ValueError):
    """A threshold is not a bucket bound of the histogram that would judge it, so that it could only be interpolated."""

    def __init__(self, metric: str, bound: Decimal) -> None:
        self.metric, self.bound = metric, bound
        super().__init__(f"could not judge {metric} at {bound}: add {bound} to its buckets in telemetry/names.py")


SCRAPES_PER_WINDOW: Final = 4
_TIMELESS: Final = frozenset({"cold_min_slow", "margin_min_cost"})
"""Whole numbers that a faster clock leaves alone: one slow load is still too few to judge, and money is not time."""


def _faster(value: Any, by: int) -> Any:
    if isinstance(value, int):
        return -(-value // by)
    if isinstance(value, tuple):
        return tuple(_faster(one, by) for one in value)
    if is_dataclass(value) and not isinstance(value, type):
        names_of = (one.name for one in fields(value) if one.name not in _TIMELESS)
        return replace(value, **{name: _faster(getattr(value, name), by) for name in names_of})
    return value


@dataclass(frozen=True, slots=True)
class Latency:
    """The tenant's P99 promise: more than `share` of requests above a multiple of the SLO breaks it.

    Judged over `window` when it holds `min_requests`; else over `long_window`, and then only while the last
    `recent_window` still had a request above the bound, so that an old incident does not come back when traffic falls.
    """

    yellow: Decimal = Decimal("1.1")
    red: Decimal = Decimal("1.3")
    share: Decimal = Decimal("0.01")
    min_requests: int = 100
    window: int = 5 * MINUTE
    recent_window: int = 15 * MINUTE
    long_window: int = HOUR
    yellow_for: int = 5 * MINUTE
    red_for: int = 2 * MINUTE


@dataclass(frozen=True, slots=True)
class BurnWindow:
    """One burn-rate alert: the budget burns `factor` times too fast over the last `long` seconds and over the last `short`.

    The alert fires when both have been true for `for_` seconds.
    """

    severity: Severity
    factor: Decimal
    long: int
    short: int
    for_: int

    def threshold(self, budget: Decimal) -> Decimal:
        """Share of bad requests at which a budget of `budget` (a share) burns `factor` times too fast."""
        return self.factor * budget


@dataclass(frozen=True, slots=True)
class Budget:
    """Error budget over 30 days: `share` of requests may be slower than the SLO or fail; several burn rates, two windows each.

    The four rows are those of Google's SRE workbook, chapter "Alerting on SLOs".
    """

    bound: Decimal = Decimal(1)
    share: Decimal = Decimal("0.01")
    min_requests: int = 100
    rows: tuple[BurnWindow, ...] = (
        BurnWindow("critical", Decimal("14.4"), HOUR, 5 * MINUTE, 2 * MINUTE),
        BurnWindow("critical", Decimal(6), 6 * HOUR, 30 * MINUTE, 15 * MINUTE),
        BurnWindow("warning", Decimal(3), DAY, 2 * HOUR, HOUR),
        BurnWindow("warning", Decimal(1), 3 * DAY, 6 * HOUR, 3 * HOUR),
    )

    @property
    def rate_window(self) -> int:
        """Window of the recorded request rates: the shortest of all rows."""
        return min(row.short for row in self.rows)


@dataclass(frozen=True, slots=True)
class Fleet:
    """Memory, KV and engine thresholds. `band_low` to `band_high` is healthy memory use: drawn, never paged."""

    memory_critical: Decimal = Decimal("0.95")
    memory_for: int = 2 * MINUTE
    band_low: Decimal = Decimal("0.80")
    band_high: Decimal = Decimal("0.92")
    kv_saturated: Decimal = Decimal("0.95")
    kv_for: int = 5 * MINUTE
    engine_down_for: int = MINUTE
    catalog_for: int = 5 * MINUTE
    restarts_window: int = 15 * MINUTE
    target_gone_for: int = 2 * MINUTE
    stuck_window: int = 10 * MINUTE
    stuck_for: int = 5 * MINUTE


@dataclass(frozen=True, slots=True)
class Adapters:
    """Warm pool and cold starts. A gateway that started less than `warm_window` ago is left out: its pool is still empty."""

    warm_hit_low: Decimal = Decimal("0.80")
    warm_min_lookups: int = 50
    warm_window: int = 15 * MINUTE
    warm_for: int = 5 * MINUTE
    cold_ms: Decimal = Decimal(1000)
    cold_share: Decimal = Decimal("0.01")
    cold_min_loads: int = 20
    cold_min_slow: int = 2
    cold_window: int = HOUR
    cold_for: int = 5 * MINUTE


@dataclass(frozen=True, slots=True)
class LedgerPromises:
    """Thresholds for the meter, the spool, the ledger and its money."""

    unattributed: Decimal = Decimal("0.001")
    system: Decimal = Decimal("0.01")
    drift: Decimal = Decimal("0.10")
    stall_seconds: Decimal = Decimal("1")
    stall_window: int = 5 * MINUTE
    engine_time_window: int = HOUR
    engine_time_for: int = 10 * MINUTE
    min_busy_seconds: int = MINUTE
    spool_window: int = 5 * MINUTE
    meter_window: int = 15 * MINUTE
    unmeasured_window: int = HOUR
    budget_window: int = HOUR
    overflow_window: int = HOUR
    snapshot_age: int = 3 * HOUR
    snapshot_for: int = 10 * MINUTE
    quarantine_for: int = 30 * MINUTE
    gaps_for: int = 15 * MINUTE
    close_for: int = HOUR
    price_for: int = 15 * MINUTE
    margin_min_cost: int = 1
    margin_for: int = HOUR
    slo_missing_window: int = HOUR
    slo_for: int = 10 * MINUTE


@dataclass(frozen=True, slots=True)
class Promises:
    """All thresholds. Durations are seconds, shares are fractions of 1."""

    latency: Latency = field(default_factory=Latency)
    budget: Budget = field(default_factory=Budget)
    fleet: Fleet = field(default_factory=Fleet)
    adapters: Adapters = field(default_factory=Adapters)
    ledger: LedgerPromises = field(default_factory=LedgerPromises)
    keep_firing: int = 5 * MINUTE
    interval: int = MINUTE
    """How often the rules are evaluated."""
    scrape: int = 15
    """How often the gateways are scraped."""

    def compressed(self, by: int) -> Promises:
        """The same promises on a clock that runs `by` times faster, for drills.

        Every duration, and every count of events that a window must hold, is divided and rounded up; shares and bounds
        stay. ValueError when the shortest window would hold fewer than four scrapes: rates need that many.
        """
        faster: Promises = _faster(self, by)
        if faster.latency.window < SCRAPES_PER_WINDOW * faster.scrape:
            raise ValueError(f"could not run {by} times faster: {faster.latency.window} s hold too few scrapes")
        return faster

    def check(self) -> None:
        """Raise PromiseNotMeasured unless every judged bound is a bucket bound, with a finite bucket above the red one."""
        slo = [Decimal(str(bound)) for bound in names.SLO_RATIO_HIST.buckets]
        for bound in (self.latency.yellow, self.latency.red, self.budget.bound):
            if bound not in slo or bound >= max(slo):
                raise PromiseNotMeasured(names.SLO_RATIO_HIST.name, bound)
        if self.adapters.cold_ms not in [Decimal(str(bound)) for bound in names.COLD_START_MS_HIST.buckets]:
            raise PromiseNotMeasured(names.COLD_START_MS_HIST.name, self.adapters.cold_ms)


DEFAULT: Final = Promises()
"""What the committed rules and boards are made from."""
