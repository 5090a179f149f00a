"""Cost by tenant and quarter hour: what was measured, shared, counted and priced, written by window."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, Final

from billing.cost.attribution import EngineHourCost, TenantCost, price_engine_hour, share_cold
from billing.cost.facts import ColdLoad, EngineMinute, NotConserved, QuarterKey, TenantQuarter
from billing.cost.tenant_quarters import Part, merge, without_engine_time
from billing.errors import AmountInvalid, BillingError, BookMissing
from billing.exact.money import product, total
from billing.exact.periods import BillingMonth, hour_start, to_ns
from billing.invoice.prices import book_as_of, gpu_price
from billing.invoice.rating import revenue
from billing.store import versions
from billing.store.catalog_history import known_catalog
from billing.store.clickhouse import Ledger
from billing.store.cost.derivations import Derived
from billing.store.cost.disputes import quarantine_disputes
from billing.store.cost.engine_time import cut_parameters, read_engine_minutes
from catalog import tariff
from catalog.durations import DAY_NS
from catalog.model import Catalog, PriceBook, Tenant
from catalog.months import month_of, to_datetime
from catalog.owners import TimeOwner
from catalog.prices import Payer
from telemetry.names import BASE, EventName

_KEY: Final = ("tenant", "quarter", "adapter", "engine", "status")
_PRICED: Final = ("gpu_type", "gpu_count", "price", "base_gpu_hours", "adapter_gpu_hours", "cold_gpu_hours")
"""Fields of TenantCost whose column has the same name."""
_NUMBERS: Final = (
    "base_ns", "adapter_ns", "cold_ns", "kv_saved_base_ns", "kv_saved_adapter_ns", "requests", "input_tokens", "cached_tokens", "output_tokens",
)  # fmt: skip

Unmeasured = Counter[QuarterKey]
Cuts = Mapping[str, Sequence[int]]
Books = Callable[[int], PriceBook]
"""The price book of the UTC hour that begins at those nanoseconds."""


def write_tenant_cost(ledger: Ledger, start_ns: int, end_ns: int, catalog: Catalog, now: datetime) -> Derived:
    """Derive the cost rows of [start_ns, end_ns), whole UTC hours, a day at a time.

    Each hour has the price book that held then, as it is known now, and each quarter hour the terms of its tenant. An
    engine-hour without a price, or whose facts do not fit each other, is a fault: it has no cost rows, is seen as not priced, and
    stops no other. Attempts without engine time in an hour of which no price book holds are one as well: nobody is asked for
    them, and their tenant's month has no draft.
    """
    catalog = known_catalog(ledger, catalog, now).catalog
    books = _books(catalog, now)
    changed = 0
    faults: list[str] = []
    for day in ledger.read("active_days", {"start_ns": start_ns, "end_ns": end_ns}):
        window = {"start_ns": max(start_ns, day["day_ns"]), "end_ns": min(end_ns, day["day_ns"] + DAY_NS)}
        if window["start_ns"] >= window["end_ns"]:
            continue
        quarantine_disputes(ledger, window, catalog, now)
        cuts = hardware_cuts(ledger, window)
        quarters, unmeasured = _quarters(ledger, window, cuts)
        hours, others = _price(quarters, read_engine_minutes(ledger, **window), cuts, books, faults)
        rows = [row for hour in hours for row in hour.tenants] + others
        new = _tenant_rows(rows, unmeasured, catalog, books, faults)
        changed += _rewrite(ledger, "tenant_cost", _KEY, new, window, now)
        _rewrite(
            ledger, "engine_cost", ("engine", "hour", "owner"), _owner_rows(hours, catalog.prices.currency), window, now
        )
    return Derived(changed, tuple(faults))


def tenant_month(ledger: Ledger, tenant: str, start_ns: int, end_ns: int) -> list[TenantCost]:
    """A tenant's priced rows of [start_ns, end_ns), a billing month as its time zones cut it."""
    window = {"tenant": tenant, "start_ns": start_ns, "end_ns": end_ns}
    return [
        TenantCost(
            TenantQuarter(
                row["tenant"],
                row["adapter"],
                row["engine"],
                row["status"],
                to_ns(row["quarter"]),
                **{n: row[n] for n in _NUMBERS},
            ),
            **{name: row[name] for name in _PRICED},
        )
        for row in ledger.read("tenant_cost_window", window)
    ]


def hardware_cuts(ledger: Ledger, window: Mapping[str, int]) -> Cuts:
    """By engine, where it went on with other hardware within an hour."""
    cuts: defaultdict[str, list[int]] = defaultdict(list)
    for row in ledger.read("hardware_changes", window):
        cuts[row["engine"]].append(row["at_ns"])
    return cuts


def _quarters(ledger: Ledger, window: dict[str, int], cuts: Cuts) -> tuple[list[TenantQuarter], Unmeasured]:
    found = list(quarter_parts(ledger, window))
    unmeasured = Counter({part.key: row["unmeasured"] for row, part in found if "unmeasured" in row})
    return merge(part for _, part in found) + _cold(ledger, window, cuts), unmeasured


def quarter_parts(ledger: Ledger, window: dict[str, int], tenant: str = "") -> Iterator[tuple[dict[str, Any], Part]]:
    """What the meter measured, and what records count and estimate, with the row that says it: of all tenants, or of one by attempt.
    What is disputed is UNKNOWN_TENANT's, nobody's.

    The row's `identity` is then emitter, number and request of the attempt.
    """
    cuts = cut_parameters(hardware_cuts(ledger, window))
    asked = {"window": EventName.WINDOW, "base": BASE, "tenant": tenant, **window, **cuts}
    for query in ("measured_quarters", "request_quarters", "estimated_quarters"):
        for row in ledger.read(query, asked):
            key = QuarterKey(row["tenant"], row["adapter_name"], row["engine_id"], row["status"], row["quarter_ns"])
            yield row, Part(key, {name: row[name] for name in _NUMBERS if name in row})


def _cold(ledger: Ledger, window: dict[str, int], cuts: Cuts) -> list[TenantQuarter]:
    rows = ledger.read("cold_loads", {"window": EventName.WINDOW, **window, **cut_parameters(cuts)})
    loads = [ColdLoad(row["engine"], row["adapter"], row["quarter_ns"], row["cold_ns"]) for row in rows]
    months = sorted({month_of(load.start_ns, "UTC") for load in loads})
    shared = []
    for month in map(BillingMonth, months):
        asked = ledger.read("requests_by_adapter", {"base": BASE, "start_ns": month.start_ns, "end_ns": month.end_ns})
        requests = {(row["adapter_name"], row["tenant"]): row["requests"] for row in asked}
        shared += share_cold([load for load in loads if month.holds(load.start_ns)], requests)
    return shared


def _price(
    quarters: Sequence[TenantQuarter], minutes: Sequence[EngineMinute], cuts: Cuts, books: Books, faults: list[str]
) -> tuple[list[EngineHourCost], list[TenantCost]]:
    """Engine-hours priced, and the rows beside them: attempts without an engine, or of an hour in which theirs was not rented."""

    def begin(engine: str, at_ns: int) -> int:
        """Where the hour begins that holds the instant, or its part on the same hardware."""
        return max([hour_start(at_ns), *(cut for cut in cuts.get(engine, ()) if cut <= at_ns)])

    by_hour: defaultdict[tuple[str, int], list[TenantQuarter]] = defaultdict(list)
    minutes_of: defaultdict[tuple[str, int], list[EngineMinute]] = defaultdict(list)
    for minute in minutes:
        minutes_of[minute.engine, begin(minute.engine, minute.start_ns)].append(minute)
    others = []
    for row in quarters:
        where = row.engine, begin(row.engine, row.start_ns)
        if where not in minutes_of and not row.measured_ns:
            others.append(without_engine_time(row, Decimal(0)))
        else:
            by_hour[where].append(row)
    hours = []
    for where in sorted(minutes_of.keys() | by_hour.keys()):
        rows, seen = by_hour[where], minutes_of[where]
        try:
            price = _price_of(seen[0], rows, books(hour_start(where[1]))) if seen else Decimal(0)
            hours.append(price_engine_hour(seen, rows, price, where[1]))
        except (NotConserved, BillingError) as error:
            named = (
                f"engine {where[0]}, {to_datetime(where[1]).isoformat()}: " if isinstance(error, AmountInvalid) else ""
            )
            faults.append(named + str(error))
    return hours, others


def _books(catalog: Catalog, now: datetime) -> Books:
    @cache
    def of(hour_ns: int) -> PriceBook:
        return book_as_of(catalog.price_books, to_datetime(hour_ns), now)

    return of


def _price_of(minute: EngineMinute, rows: Sequence[TenantQuarter], book: PriceBook) -> Decimal:
    """The price at the start of the minute's hour; a miss names the first that used the hour."""
    tenant, adapter = (rows[0].tenant, rows[0].adapter) if rows else (None, None)
    return gpu_price(book, minute.gpu_type, minute.start_ns, tenant=tenant, adapter=adapter)


def _tenant_rows(
    rows: Iterable[TenantCost], unmeasured: Unmeasured, catalog: Catalog, books: Books, faults: list[str]
) -> list[dict[str, Any]]:
    tenants = {tenant.id: (tenant, tariff.calendar(tenant)) for tenant in catalog.tenants}

    @cache
    def terms(name: str, at_ns: int) -> tuple[Tenant | None, str]:
        if name not in tenants:
            return None, month_of(at_ns, "UTC")
        tenant, months = tenants[name]
        return tariff.terms_at(tenant, at_ns), months.month_of(at_ns)

    out = []
    for row in rows:
        quarter = row.quarter
        tenant, month = terms(quarter.tenant, quarter.start_ns)
        payer, asked = _asked(row, tenant, books, faults)
        out.append(
            {
                "tenant": quarter.tenant,
                "quarter": to_datetime(quarter.start_ns),
                "adapter": quarter.adapter,
                "engine": quarter.engine,
                "status": quarter.status,
                "billing_month": month,
                **{name: getattr(quarter, name) for name in _NUMBERS},
                "unmeasured": unmeasured[quarter.key],
                **{name: getattr(row, name) for name in _PRICED},
                "cost": row.cost,
                "charged_to": payer,
                "revenue": asked,
                "currency": catalog.prices.currency,
            }
        )
    return out


def _asked(row: TenantCost, tenant: Tenant | None, books: Books, faults: list[str]) -> tuple[Payer, Decimal]:
    try:
        return revenue(row, tenant, books(hour_start(row.quarter.start_ns)))
    except BookMissing as error:
        if str(error) not in faults:
            faults.append(str(error))
        return "provider", Decimal(0)


def _owner_rows(hours: Iterable[EngineHourCost], currency: str) -> list[dict[str, Any]]:
    return [
        {
            "engine": hour.engine,
            "hour": to_datetime(hour.start_ns),
            "owner": owner.value,
            "gpu_type": hour.gpu_type,
            "gpu_count": hour.gpu_count,
            "ns": ns,
            "gpu_hours": gpu_hours,
            "price": hour.price,
            "cost": cost,
            "currency": currency,
        }
        for hour in hours
        for owner, ns, gpu_hours, cost in _owners(hour)
    ]


def _owners(hour: EngineHourCost) -> Iterator[tuple[TimeOwner, int, Decimal, Decimal]]:
    cold = total(row.cold_gpu_hours for row in hour.tenants)
    warm = total(part for row in hour.tenants for part in (row.base_gpu_hours, row.adapter_gpu_hours))
    yield (
        TimeOwner.TENANTS,
        sum(row.quarter.base_ns + row.quarter.adapter_ns for row in hour.tenants),
        warm,
        product(warm, hour.price),
    )
    yield TimeOwner.COLD, sum(row.quarter.cold_ns for row in hour.tenants), cold, product(cold, hour.price)
    for owner in hour.owners:
        yield owner.owner, owner.ns, owner.gpu_hours, owner.cost


def _rewrite(
    ledger: Ledger, name: str, key: Sequence[str], new: Sequence[dict[str, Any]], window: dict[str, int], now: datetime
) -> int:
    changed = versions.change(ledger.read(f"{name}_window", {**window, "tenant": ""}), new, key)
    return versions.apply(ledger, f"{name}_versions", changed, to_ns(now))
