"""What the report page asks the ledger, in one go: an embedded ledger is held only while this runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from billing.close.month import MonthState
from billing.close.reconcile import Reconciliation
from billing.exact.periods import BillingMonth
from billing.store.catalog_history import known_catalog
from billing.store.clickhouse import Ledger
from billing.store.finance import demo_table, month_state, month_window, reconciliation
from catalog.durations import DAY_NS, SECOND_NS
from catalog.model import Catalog, Tenant
from telemetry.names import EventName, SpanName

Row = Mapping[str, Any]

TIMELINE_NS: Final = DAY_NS
"""The residency timeline looks back this far from the month's last sign of life."""
STRETCHES: Final = 360
"""Uses of an adapter are told apart in stretches of at least this part of the timeline."""


@dataclass(frozen=True, slots=True)
class ReportFacts:
    """Rows as the queries give them. `timeline` is [start, end) in UTC nanoseconds, None when no engine ran in the month.

    `periods` maps every month with costs to the instant it was closed, None while it is open. `extents` are the first and
    last sign of life of each engine process.
    """

    month: str
    state: MonthState
    reconciliation: Reconciliation
    periods: Mapping[str, datetime | None]
    promises: Sequence[Row]
    money: Sequence[Row]
    timeline: tuple[int, int] | None
    extents: Sequence[Row]
    loads: Sequence[Row]
    uses: Sequence[Row]
    cold_starts: Sequence[Row]
    cold_waits: Sequence[Row]


def report_facts(
    ledger: Ledger, month: str, catalog: Catalog, yellow: Decimal, red: Decimal, now: datetime
) -> ReportFacts:
    """Everything about one billing month; `yellow` and `red` are the alert bounds as multiples of a promise."""
    known = known_catalog(ledger, catalog, now)
    kept = [tenant for tenant in known.catalog.tenants if tenant.id not in known.gone]
    start_ns, end_ns = month_window(month, known.catalog)
    window = {"start_ns": start_ns, "end_ns": end_ns}
    extents = ledger.read("engine_extents", {"window": EventName.WINDOW, **window})
    timeline = _timeline(extents)
    loads, uses = _residency(ledger, timeline, start_ns)
    return ReportFacts(
        month=month,
        state=month_state(ledger, month, catalog, now),
        reconciliation=reconciliation(ledger, BillingMonth(month).start, BillingMonth(month).end),
        periods={row["billing_month"]: row["closed_at"] for row in ledger.read("report_periods")},
        promises=_promises(ledger, month, kept, window, (yellow, red)),
        money=demo_table(ledger, month),
        timeline=timeline,
        extents=extents,
        loads=loads,
        uses=uses,
        cold_starts=ledger.read("report_cold_starts", window),
        cold_waits=ledger.read("report_cold_waits", {"span": SpanName.ADAPTER_LOAD, **window}),
    )


def _promises(
    ledger: Ledger, month: str, tenants: Sequence[Tenant], window: Mapping[str, int], bounds: tuple[Decimal, Decimal]
) -> Sequence[Row]:
    """Bounds are whole nanoseconds: a latency is above one exactly when it is above its floor."""
    if not tenants:
        return []
    months = [BillingMonth.of(tenant, month) for tenant in tenants]
    slos = [tenant.slo.p99_seconds * SECOND_NS for tenant in tenants]
    parameters = {
        "tenants": [tenant.id for tenant in tenants],
        "slo_ns": [int(slo) for slo in slos],
        "yellow_ns": [int(slo * bounds[0]) for slo in slos],
        "red_ns": [int(slo * bounds[1]) for slo in slos],
        "from_ns": [one.start_ns for one in months],
        "to_ns": [one.end_ns for one in months],
        **window,
    }
    return ledger.read("report_promises", parameters)


def _timeline(extents: Sequence[Row]) -> tuple[int, int] | None:
    if not extents:
        return None
    last = max(row["last_ns"] for row in extents)
    return max(min(row["first_ns"] for row in extents), last - TIMELINE_NS), last


def _residency(ledger: Ledger, timeline: tuple[int, int] | None, since_ns: int) -> tuple[Sequence[Row], Sequence[Row]]:
    if timeline is None:
        return [], []
    start_ns, end_ns = timeline
    window = {"start_ns": start_ns, "end_ns": end_ns}
    step_ns = max(1, -(-(end_ns - start_ns) // STRETCHES))
    return (
        ledger.read("report_loads", {"since_ns": since_ns, **window}),
        ledger.read("report_uses", {"step_ns": step_ns, **window}),
    )
