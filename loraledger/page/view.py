"""What the report page shows, as values: every decision is made before a template or a chart sees them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final

from alerts.promises import Severity


class Verdict(StrEnum):
    """How a promise stands over the month."""

    KEPT = "kept"
    LATE = "late"
    """More than the allowed share of requests were above the yellow bound."""
    BROKEN = "broken"
    """More than the allowed share of requests were above the red bound."""
    IDLE = "idle"
    """Nothing to judge."""


@dataclass(frozen=True, slots=True)
class Promise:
    """One tenant's latency promise over the month. Seconds; None where no request succeeded.

    `few` says that there are fewer requests than an alert needs to judge. `allowed` is how many of `judged` may be above
    a bound.
    """

    tenant: str
    name: str
    slo_s: float
    judged: int
    failed: int
    above_slo: int
    above_yellow: int
    above_red: int
    p50_s: float | None
    p99_s: float | None
    max_s: float | None
    verdict: Verdict
    few: bool

    @property
    def ratio(self) -> float | None:
        """P99 ÷ promise."""
        return None if self.p99_s is None else self.p99_s / self.slo_s


@dataclass(frozen=True, slots=True)
class Money:
    """One tenant's month: measured and estimated time (engine nanoseconds), cost, and what its plan asks. Shares of 1."""

    tenant: str
    requests: int
    input_tokens: int
    output_tokens: int
    t_b_ns: int
    t_a_ns: int
    t_kv_ns: int
    t_cold_ns: int
    cost: Decimal
    revenue: Decimal
    cost_per_million_tokens: Decimal | None
    gpu_share: float | None
    revenue_share: float | None

    @property
    def measured_ns(self) -> int:
        """T_B + T_A - T_kv + T_cold."""
        return self.t_b_ns + self.t_a_ns - self.t_kv_ns + self.t_cold_ns

    @property
    def margin(self) -> Decimal:
        """Revenue minus cost."""
        return self.revenue - self.cost


_ADDED: Final = (
    "requests",
    "input_tokens",
    "output_tokens",
    "t_b_ns",
    "t_a_ns",
    "t_kv_ns",
    "t_cold_ns",
    "cost",
    "revenue",
)


@dataclass(frozen=True, slots=True)
class Owner:
    """Who owns a part of the rented time: GPU nanoseconds and money; `share` of 1."""

    name: str
    gpu_ns: int
    cost: Decimal
    share: float


@dataclass(frozen=True, slots=True)
class Stay:
    """One stay of an adapter in an engine, UTC nanoseconds: loaded at `start`, surely there until `sure`, gone by `end`.

    Between its last use and its next load, or the end of its engine, an adapter may have been evicted: nothing says when.
    """

    start_ns: int
    sure_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Lane:
    """One adapter on one engine: its stays, its uses, and the instants of its loads inside the timeline."""

    adapter: str
    engine: str
    stays: tuple[Stay, ...]
    uses: tuple[tuple[int, int], ...]
    loads_ns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Residency over [start, end), UTC nanoseconds. `hidden` lanes are not shown: the least used."""

    start_ns: int
    end_ns: int
    lanes: tuple[Lane, ...]
    hidden: int


@dataclass(frozen=True, slots=True)
class Cold:
    """Loads of one adapter. `waits_ms` are the newest waits of requests for it; `late` of them were above the promise."""

    adapter: str
    loads: int
    ahead: int
    engine_median_ms: float
    engine_sum_ms: float
    waits_ms: tuple[float, ...]
    late: int


@dataclass(frozen=True, slots=True)
class ActiveAlert:
    """One alert that is firing. `runbook` is an address or a path; `since` None when the source does not know."""

    name: str
    severity: Severity
    subject: str
    summary: str
    runbook: str
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class LedgerCheck:
    """One check of the ledger: its subject, what was found, and whether that is as it should be."""

    what: str
    found: str
    good: bool


@dataclass(frozen=True, slots=True)
class Alerts:
    """Active alerts, worst first; where they come from; and what the ledger's own checks found. `trouble`: the source failed."""

    active: tuple[ActiveAlert, ...]
    source: str
    checks: tuple[LedgerCheck, ...]
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """One billing month. `closed_at` None: it is still open, and every figure may change."""

    month: str
    as_of: datetime
    over: bool
    closed_at: datetime | None
    currency: str
    note: str | None
    yellow: float
    red: float
    allowed_share: float
    judge_from: int
    cold_promise_ms: float
    promises: tuple[Promise, ...]
    money: tuple[Money, ...]
    owners: tuple[Owner, ...]
    rented_ns: int
    missing_ns: int
    missing_cost: Decimal
    timeline: Timeline | None
    cold: tuple[Cold, ...]
    alerts: Alerts

    @property
    def whole(self) -> Money:
        """All tenants together; revenue is before minimums and rounding."""
        sums = {name: sum(getattr(row, name) for row in self.money) for name in _ADDED}
        return Money("all", **sums, cost_per_million_tokens=None, gpu_share=None, revenue_share=None)

    @property
    def rent(self) -> Decimal:
        """What the rented time cost in all."""
        return sum((owner.cost for owner in self.owners), start=Decimal(0))
