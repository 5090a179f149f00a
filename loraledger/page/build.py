"""From the ledger's rows to the values of the page: what is judged, sorted and left out. No I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, Final

from alerts.promises import Latency, Promises
from billing.exact.periods import BillingMonth, to_ns
from billing.store.report import ReportFacts
from catalog.durations import SECOND_NS
from catalog.model import Catalog, Tenant
from catalog.owners import TimeOwner
from loraledger.page.checks import ledger_alerts
from loraledger.page.residency import timeline
from loraledger.page.view import Alerts, Cold, Money, Owner, Page, Promise, Verdict

Row = Mapping[str, Any]
_TIMES: Final = ("p50_ns", "p99_ns", "max_ns")
_COUNTS: Final = ("judged_attempts", "failed_attempts", "above_slo", "above_yellow", "above_red")
_NOTHING: Final = {**dict.fromkeys(_COUNTS, 0), **dict.fromkeys(_TIMES)}


def build_page(
    facts: ReportFacts, catalog: Catalog, promises: Promises, now: datetime, alerts: Alerts | None = None
) -> Page:
    """The page of `facts.month` at `now`; `alerts` None: the ledger's own checks stand in for Prometheus."""
    found, rows = facts.reconciliation, _money(facts.money)
    order = [adapter.name for adapter in catalog.adapters]
    cold_ms = float(promises.adapters.cold_ms)
    return Page(
        month=facts.month,
        as_of=now,
        over=to_ns(now) >= facts.state.end_ns,
        closed_at=facts.periods.get(facts.month),
        currency=found.currency or catalog.prices.currency,
        note=catalog.prices.note,
        yellow=float(promises.latency.yellow),
        red=float(promises.latency.red),
        allowed_share=float(promises.latency.share),
        judge_from=promises.latency.min_requests,
        cold_promise_ms=cold_ms,
        promises=_promises(facts.promises, catalog.tenants, promises.latency),
        money=rows,
        owners=tuple(
            Owner(owner, found.owners[owner], found.costs[owner], float(found.share(owner) or 0)) for owner in TimeOwner
        ),
        rented_ns=found.rented_ns,
        missing_ns=found.missing_ns,
        missing_cost=found.missing_cost,
        timeline=facts.timeline and timeline(facts.timeline, facts.loads, facts.uses, facts.extents, order),
        cold=_cold(facts.cold_starts, facts.cold_waits, cold_ms),
        alerts=alerts or ledger_alerts(facts.state, found, rows, overdue(facts, catalog, now), promises),
    )


def overdue(facts: ReportFacts, catalog: Catalog, now: datetime) -> list[str]:
    """Months with costs that are over for every tenant and not closed."""
    return [
        month
        for month, closed in sorted(facts.periods.items())
        if closed is None
        and all(one.end <= now for one in (BillingMonth(month), *(BillingMonth.of(t, month) for t in catalog.tenants)))
    ]


def judge(latency: Latency, judged: int, above_yellow: int, above_red: int) -> Verdict:
    """More than the allowed share above a bound breaks the promise; counts are exact, nothing is interpolated."""
    if not judged:
        return Verdict.IDLE
    if above_red > latency.share * judged:
        return Verdict.BROKEN
    return Verdict.LATE if above_yellow > latency.share * judged else Verdict.KEPT


def _promises(rows: Sequence[Row], tenants: Sequence[Tenant], latency: Latency) -> tuple[Promise, ...]:
    """The tenants' latency promises, the worst first."""
    by_tenant = {row["tenant"]: row for row in rows}
    found = [_promise(tenant, by_tenant.get(tenant.id, _NOTHING), latency) for tenant in tenants]
    rank = [Verdict.BROKEN, Verdict.LATE, Verdict.KEPT, Verdict.IDLE]
    return tuple(sorted(found, key=lambda row: (rank.index(row.verdict), -(row.ratio or 0), row.tenant)))


def _promise(tenant: Tenant, row: Row, latency: Latency) -> Promise:
    judged, above_yellow, above_red = row["judged_attempts"], row["above_yellow"], row["above_red"]
    p50_s, p99_s, max_s = (None if row[name] is None else row[name] / SECOND_NS for name in _TIMES)
    return Promise(
        tenant=tenant.id,
        name=tenant.name,
        slo_s=float(tenant.slo.p99_seconds),
        judged=judged,
        failed=row["failed_attempts"],
        above_slo=row["above_slo"],
        above_yellow=above_yellow,
        above_red=above_red,
        p50_s=p50_s,
        p99_s=p99_s,
        max_s=max_s,
        verdict=judge(latency, judged, above_yellow, above_red),
        few=judged < latency.min_requests,
    )


def _money(rows: Sequence[Row]) -> tuple[Money, ...]:
    """Tenants by cost, highest first, without those that neither used nor owe anything (refused attempts only)."""
    names = [field.name for field in fields(Money)]
    return tuple(Money(**{name: row[name] for name in names}) for row in rows if row["measured_ns"] or row["revenue"])


def _cold(starts: Sequence[Row], waits: Sequence[Row], promise_ms: float) -> tuple[Cold, ...]:
    by_adapter: dict[str, list[float]] = defaultdict(list)
    for row in waits:
        by_adapter[row["adapter"]].append(row["wait_ns"] / 1e6)
    return tuple(
        Cold(
            adapter=row["adapter"],
            loads=row["loads"],
            ahead=row["ahead"],
            engine_median_ms=row["engine_median_ns"] / 1e6,
            engine_sum_ms=row["engine_sum_ns"] / 1e6,
            waits_ms=tuple(by_adapter[row["adapter"]]),
            late=sum(wait > promise_ms for wait in by_adapter[row["adapter"]]),
        )
        for row in starts
    )
