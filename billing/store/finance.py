"""What people and the gateway ask the ledger: reconciliation, the state of a month, the demo's table, the cost snapshot."""

from __future__ import annotations

import os
from collections import defaultdict
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from billing.close.month import MonthState, open_before, overdue_ns
from billing.close.reconcile import Reconciliation, ZoneMonth
from billing.cost.facts import PROVIDER
from billing.exact.money import plain, product, ratio, total
from billing.exact.periods import BillingMonth, to_ns
from billing.store.catalog_history import known_catalog
from billing.store.clickhouse import Ledger
from billing.store.close.blocks import open_blocks
from billing.store.close.gaps import stream_gaps
from billing.store.cost.residence import residence_weights
from catalog import tariff
from catalog.durations import DAY_NS, HOUR_NS
from catalog.model import Catalog, CostPlus
from catalog.months import month_of, to_datetime
from catalog.owners import TimeOwner
from telemetry.ledger_snapshot import LedgerSnapshot, Standing, TenantFigures
from telemetry.names import EventName
from telemetry.usage import UNAUTHENTICATED, UNKNOWN_TENANT

NOBODY: Final = [PROVIDER, UNAUTHENTICATED, UNKNOWN_TENANT]
"""Names in the rows of cost to which no document goes."""


def month_window(month: str, catalog: Catalog) -> tuple[int, int]:
    """[start, end) in UTC nanoseconds that holds the month of every tenant, whole UTC hours."""
    months = [BillingMonth(month), *(BillingMonth.of(tenant, month) for tenant in catalog.tenants)]
    hours = [hour for one in months for hour in one.hours()]
    return min(hours), max(hours) + HOUR_NS


def reconciliation(ledger: Ledger, start: datetime, end: datetime) -> Reconciliation:
    """Rented time and its owners in [start, end), whole UTC hours; compare with `Reconciliation.check`.

    Records are compared with the meter as far as the meter has written.
    """
    window = {"start_ns": to_ns(start), "end_ns": to_ns(end)}
    owned = ledger.read("owners_window", window)[0]
    costs = {row["owner"]: row for row in ledger.read("owner_costs_window", window)}
    compared = ledger.read("usage_against_meter", {"window": EventName.WINDOW, **window})
    return Reconciliation(
        **window,
        owners={owner: owned[owner] for owner in TimeOwner},
        rented_ns=owned["rented"],
        costs={owner: costs[owner]["cost_sum"] if owner in costs else Decimal(0) for owner in TimeOwner},
        attributed_cost=ledger.read("attributed_cost_window", window)[0]["cost_sum"],
        currency=next((row["currency"] for row in costs.values()), ""),
        usage_ns=sum(row["usage_ns"] for row in compared),
        meter_ns=sum(row["meter_ns"] for row in compared),
        uneven_attempts=sum(row["uneven"] for row in compared),
        unmeasured_attempts=sum(row["unmeasured"] for row in compared),
    )


def zone_months(ledger: Ledger, month: str, catalog: Catalog) -> list[ZoneMonth]:
    """The month of every time zone of a tenant, by its beginning, the latest last."""
    by_month: defaultdict[BillingMonth, list[str]] = defaultdict(list)
    for tenant in catalog.tenants:
        by_month[BillingMonth.of(tenant, month)].append(tenant.id)
    found = []
    for period, tenants in by_month.items():
        window = {"start_ns": period.start_ns, "end_ns": period.end_ns}
        theirs = ledger.read("tenants_window", {**window, "tenants": tenants})[0]
        rented = ledger.read("owners_window", window)[0]["rented"]
        found.append(
            ZoneMonth(
                period.zone,
                **window,
                tenants=tuple(sorted(tenants)),
                rented_ns=rented,
                tenants_ns=theirs["gpu_ns"],
                cost=theirs["cost_sum"],
            )
        )
    return sorted(found, key=lambda one: (one.start_ns, one.zone))


def waiting(ledger: Ledger, start_ns: int, end_ns: int) -> list[tuple[str, int]]:
    """Open quarantine entries that touch the window, as (reason, how many)."""
    rows = ledger.read("quarantine_reasons", {"start_ns": start_ns, "end_ns": end_ns})
    return [(row["reason"], row["entries"]) for row in rows]


def system_causes(ledger: Ledger, start_ns: int, end_ns: int) -> tuple[dict[str, int], int]:
    """Engine nanoseconds of [start_ns, end_ns) that belong to the system, by cause, and all that were not idle."""
    row = ledger.read("system_causes", {"start_ns": start_ns, "end_ns": end_ns})[0]
    return dict(row["causes"]), row["busy_ns"]


def month_state(ledger: Ledger, month: str, catalog: Catalog, now: datetime) -> MonthState:
    """Everything that decides for whom the month may be closed."""
    catalog = known_catalog(ledger, catalog, now).catalog
    start_ns, end_ns = month_window(month, catalog)
    # Where a zone begins the month before others end theirs, the hours between are facts of both: they open no month by themselves.
    begun = ledger.read("period_known", {"month": month})
    return MonthState(
        month,
        max([BillingMonth(month).end_ns, *(BillingMonth.of(tenant, month).end_ns for tenant in catalog.tenants)]),
        open_blocks(ledger, start_ns, end_ns, catalog, now),
        [] if begun else open_before(month, stands(ledger, month, start_ns)),
    )


def stands(ledger: Ledger, month: str, before_ns: int) -> dict[str, str]:
    """How each earlier month that has costs before the instant or was closed stands: `closed`, `partly closed`, or nothing."""
    rows = ledger.read("months_before", {"month": month, "before_ns": before_ns, "nobody": NOBODY})
    return {row["billing_month"]: row["stands"] for row in rows}


def demo_table(ledger: Ledger, month: str) -> list[dict[str, Any]]:
    """One billing month, a mapping per tenant, dearest first: usage, the four terms, cost, revenue, and both shares."""
    return ledger.read("demo_table", {"month": month, "provider": PROVIDER})


def publish_snapshot(ledger: Ledger, catalog: Catalog, path: Path, now: datetime) -> None:
    """Write the gateway's ledger figures to `path` in one rename; a reader sees the old file or the new one, never half."""
    known = known_catalog(ledger, catalog, now)
    kept = [tenant for tenant in known.catalog.tenants if tenant.id not in known.gone]
    catalog = known.catalog.model_copy(update={"tenants": tuple(kept)})
    # Read before the charges: what is derived in between is then in them and not said to be, which errs on the dear side.
    counted = _counted(ledger, catalog, now)
    figures = LedgerSnapshot(
        published_at=now,
        tenants=_tenants(ledger, catalog, now),
        ledger=_standing(ledger, catalog, now),
        counted=counted,
        charged_until=_charged_until(ledger, now),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(figures.to_json() + "\n", encoding="utf-8")
    draft.replace(path)


def _standing(ledger: Ledger, catalog: Catalog, now: datetime) -> Standing:
    """What should be 0: all that is open in quarantine; record gaps since the oldest open month began; how late its close is;
    rented time of the running month that the price book has no price for."""
    now_ns = to_ns(now)
    running = month_of(now_ns, "UTC")
    oldest: str = ledger.read("oldest_open_month", {})[0]["month"]
    since_ns, _ = month_window(oldest or running, catalog)
    start_ns, end_ns = month_window(running, catalog)
    unpriced = [
        row["rented"]
        for row in ledger.read("unpriced_hours", {"start_ns": start_ns, "end_ns": end_ns})
        if tariff.gpu_price(catalog.price_books, row["gpu_type"], row["hour_ns"], now) is None
    ]
    return Standing(
        quarantine_records=sum(count for _, count in waiting(ledger, 0, now_ns)),
        record_gaps=sum(stream_gaps(ledger, since_ns, now_ns).values()),
        close_overdue_ns=overdue_ns(oldest, now_ns),
        price_missing_ns=sum(unpriced),
    )


def _running(catalog: Catalog, now: datetime) -> dict[str, str]:
    """Every tenant's billing month now."""
    return {tenant.id: tariff.calendar(tenant).month_of(to_ns(now)) for tenant in catalog.tenants}


def _counted(ledger: Ledger, catalog: Catalog, now: datetime) -> dict[str, tuple[tuple[int, int], ...]]:
    """By gateway process, which attempts of the last day are in the figures: ranges [first, last] of their numbers.

    A gateway asks only about what it settled shortly before; without a budget in the catalog, none asks.
    """
    budgeted = [tenant for tenant in catalog.tenants if tenant.quotas.monthly_budget is not None]
    if not budgeted:
        return {}
    asked = {
        "months": sorted(set(_running(catalog, now).values())),
        "by_time": [tenant.id for tenant in budgeted if isinstance(tariff.terms_at(tenant, to_ns(now)).plan, CostPlus)],
        "start_ns": to_ns(now) - DAY_NS,
    }
    by_emitter = groupby(ledger.read("counted_attempts", asked), itemgetter("emitter"))
    return {emitter: tuple((row["from_seq"], row["to_seq"]) for row in rows) for emitter, rows in by_emitter}


def _charged_until(ledger: Ledger, now: datetime) -> datetime:
    """Up to when costs are derived: what ended well before this and is not counted never came."""
    until_ns = ledger.read("charged_until", {})[0]["until_ns"]
    return to_datetime(min(until_ns, to_ns(now)))


def _tenants(ledger: Ledger, catalog: Catalog, now: datetime) -> dict[str, TenantFigures]:
    months = _running(catalog, now)
    rows = {(month, row["tenant"]): row for month in set(months.values()) for row in demo_table(ledger, month)}
    begins_ns = BillingMonth(month_of(to_ns(now), "UTC")).start_ns
    weights = residence_weights(ledger, catalog, begins_ns, to_ns(now))
    prices = [tariff.gpu_price(catalog.price_books, engine.gpu_type, to_ns(now), now) for engine in catalog.engines]
    per_hour = total(
        product(price, Decimal(engine.gpu_count))
        for engine, price in zip(catalog.engines, prices, strict=True)
        if price is not None
    )
    out: dict[str, TenantFigures] = {}
    for tenant, month in sorted(months.items()):
        row = rows.get((month, tenant))
        unit = ratio(row["cost"] * 1_000_000, Decimal(row["output_tokens"]), 6) if row else None
        memory = ratio(product(per_hour, Decimal(weights[tenant])), Decimal(weights.total()), 6) or Decimal(0)
        revenue = _exact(row["revenue"], 18) if row else Decimal(0)
        out[tenant] = TenantFigures(
            cost_per_million_tokens=_exact(unit, 6),
            # An engine without a price would count as free.
            memory_cost_per_hour=None if None in prices else _exact(memory, 6),
            cost=_exact(row["cost"], 18) if row else Decimal(0),
            revenue=revenue,
            month=month,
            charged=revenue,
        )
    return out


def _exact(amount: Decimal | None, places: int) -> Decimal | None:
    """The amount with that many decimals; AmountInvalid if digits would be lost."""
    return None if amount is None else Decimal(plain(amount, places))
