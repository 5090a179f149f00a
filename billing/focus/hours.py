"""A tenant's priced rows by UTC hour and adapter: the finest grain at which FOCUS shows a charge."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from billing.cost.attribution import TenantCost
from billing.exact.money import negated, total
from billing.exact.periods import hour_start, to_ns
from billing.invoice.plans import ChargeKind, tokens
from catalog.durations import HOUR_NS
from catalog.months import to_datetime

GPU_SECONDS: Final = "GPU-Seconds"
TOKENS: Final = "Tokens"


@dataclass(frozen=True, slots=True)
class HourUse:
    """Rows of one UTC hour, cut where the billing period is, and one adapter."""

    start: datetime
    end: datetime
    adapter: str
    rows: tuple[TenantCost, ...]

    @property
    def requests(self) -> int:
        """Attempts that finished in it."""
        return sum(row.quarter.requests for row in self.rows)


def by_hour(rows: Iterable[TenantCost], start: datetime, end: datetime) -> list[HourUse]:
    """Rows of [start, end) grouped, in order of time and adapter."""
    groups: defaultdict[tuple[int, str], list[TenantCost]] = defaultdict(list)
    for row in rows:
        groups[hour_start(row.quarter.start_ns), row.quarter.adapter].append(row)
    first, last = to_ns(start), to_ns(end)
    return [
        HourUse(to_datetime(max(hour, first)), to_datetime(min(hour + HOUR_NS, last)), adapter, tuple(part))
        for (hour, adapter), part in sorted(groups.items())
    ]


def quantity(kind: ChargeKind, rows: Sequence[TenantCost]) -> Decimal:
    """What the plan prices of these rows: GPU-hours of a term (negative for the cache credit), or millions of tokens."""
    if kind in _HOURS:
        return total(_HOURS[kind](row) for row in rows)
    return Decimal(_tokens(kind, rows)).scaleb(-6)


def consumed(kind: ChargeKind, rows: Sequence[TenantCost]) -> tuple[Decimal, str]:
    """What was used: measured GPU-seconds of a term, without the estimate of what the cache saved; or tokens."""
    if kind in _MEASURED_NS:
        gpu_ns = sum(_MEASURED_NS[kind](row) * row.gpu_count for row in rows)
        return Decimal(gpu_ns).scaleb(-9), GPU_SECONDS
    return Decimal(_tokens(kind, rows)), TOKENS


def _tokens(kind: ChargeKind, rows: Sequence[TenantCost]) -> int:
    return sum(tokens(row.quarter, kind) for row in rows)


_HOURS: Final[dict[ChargeKind, Callable[[TenantCost], Decimal]]] = {
    ChargeKind.BASE: lambda row: row.t_b_gpu_hours,
    ChargeKind.LORA: lambda row: row.t_a_gpu_hours,
    ChargeKind.CACHE: lambda row: negated(row.t_kv_gpu_hours),
    ChargeKind.COLD: lambda row: row.t_cold_gpu_hours,
}
_MEASURED_NS: Final[dict[ChargeKind, Callable[[TenantCost], int]]] = {
    ChargeKind.BASE: lambda row: row.quarter.base_ns,
    ChargeKind.LORA: lambda row: row.quarter.adapter_ns,
    ChargeKind.COLD: lambda row: row.quarter.cold_ns,
}
