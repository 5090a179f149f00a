"""What one request costs and is charged, by the terms of its instants, with every term that decided it. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from msgspec.structs import replace

from billing.cost.attribution import TenantCost
from billing.cost.facts import TenantQuarter
from billing.errors import PayerMissing, RowsInvalid
from billing.exact.money import total, trimmed
from billing.exact.periods import BillingMonth, hour_start, quarter_start, to_ns
from billing.exact.quantities import gpu_hours
from billing.invoice.plans import Charge, contract_of, plan_charges
from billing.invoice.prices import book_as_of, exchange, gpu_price
from catalog import tariff
from catalog.model import Catalog, CostPlus, PriceBook, Tenant
from catalog.months import to_datetime
from telemetry.usage import UsageRecord

BASE_MODEL: Final = "base"
_TOKENS: Final = ("input_tokens", "cached_tokens", "output_tokens_delivered")


@dataclass(frozen=True, slots=True)
class QuotedPart:
    """Engine time of one quarter hour, and tokens in the last: what they cost and are charged, by the terms that held then.

    `price` is that of a GPU-hour, None where no engine time is.
    """

    start: datetime
    price_book: str
    gpu_type: str | None
    price: Decimal | None
    gpu_hours: Decimal
    cost: Decimal
    payer: str
    charges: tuple[Charge, ...]


@dataclass(frozen=True, slots=True)
class Quote:
    """The price of a request before tax, unrounded, in the price book's `currency`; `amount` is None when it cannot be known.

    `terms` are what decided it, by name, `unknown` what the record does not say, `beside` what the month adds to the sum of its requests.
    """

    request: str
    tenant: str
    status: str
    month: str
    currency: str
    cost: Decimal | None
    amount: Decimal | None
    parts: tuple[QuotedPart, ...]
    terms: dict[str, str]
    unknown: tuple[str, ...]
    beside: tuple[str, ...]


def quote(record: UsageRecord, catalog: Catalog, now: datetime, at_ns: int | None = None) -> Quote:
    """The price of the request as it was, or as if it had arrived at `at_ns`; prices and terms are those known at `now`.

    A part is priced as one row of its own: the ledger deals an engine-hour's GPU-hours over all its rows, so there a part may have
    1e-12 more or less. RowsInvalid when the tenant or the hardware is not known; BookMissing, PriceMissing, PayerMissing.
    """
    tenant = catalog.tenant(record.tenant)
    if tenant is None:
        raise RowsInvalid(
            f"could not price request {record.request_id}: tenant {record.tenant!r} is not in the catalog"
        )
    record = record if at_ns is None else _moved(record, at_ns - record.arrival_ns)
    last_ns = record.arrival_ns if record.finished_ns is None else record.finished_ns
    month = BillingMonth.of(tenant, tariff.calendar(tenant).month_of(last_ns))
    parts = tuple(_part(row, tenant, catalog, now) for row in _rows(record, catalog))
    held, book = tariff.terms_at(tenant, last_ns), _book(catalog, last_ns, now)
    unknown = tuple(_unknown(record, held, parts))
    timeless = record.slices is None
    return Quote(
        request=record.request_id,
        tenant=tenant.id,
        status=record.status.value,
        month=month.text,
        currency=book.currency,
        cost=None if timeless else trimmed(total(part.cost for part in parts)),
        amount=None if unknown else trimmed(total(charge.amount for part in parts for charge in part.charges)),
        parts=parts,
        terms=dict([*_terms(tenant, book, month, last_ns, record), *_gpu_prices(parts, catalog, now)]),
        unknown=unknown,
        beside=tuple(_beside(tenant, held, book, month)),
    )


def _moved(record: UsageRecord, by_ns: int) -> UsageRecord:
    finished = None if record.finished_ns is None else record.finished_ns + by_ns
    slices = record.slices and tuple(
        replace(part, start_ns=quarter_start(part.start_ns + by_ns)) for part in record.slices
    )
    return replace(record, arrival_ns=record.arrival_ns + by_ns, finished_ns=finished, slices=slices)


def _rows(record: UsageRecord, catalog: Catalog) -> Iterator[tuple[TenantQuarter, str, int]]:
    """Rows of the record, with the hardware they ran on; its tokens in the quarter hour in which it finished."""
    declared = catalog.engine(record.engine or "")
    gpu_type = record.gpu_type or (declared.gpu_type if declared else "")
    count = record.gpu_count or (declared.gpu_count if declared else 1)
    if record.slices and not gpu_type:
        raise RowsInvalid(
            f"could not price request {record.request_id}: it has engine time, and neither gpu_type nor a known engine"
        )
    last = quarter_start(record.arrival_ns if record.finished_ns is None else record.finished_ns)
    times = {part.start_ns: part for part in record.slices or ()}
    for start_ns in sorted({*times, last}):
        numbers: dict[str, Any] = {}
        if start_ns == last:
            numbers["requests"] = 1
            given = (getattr(record, name) or 0 for name in _TOKENS)
            numbers |= dict(zip(("input_tokens", "cached_tokens", "output_tokens"), given, strict=True))
        if part := times.get(start_ns):
            names = ("base_ns", "adapter_ns", "kv_saved_base_ns", "kv_saved_adapter_ns")
            numbers |= {name: getattr(part, name) for name in names}
        key = (record.tenant, record.adapter or BASE_MODEL, record.engine or "", record.status.value, start_ns)
        yield TenantQuarter(*key, **numbers), gpu_type if start_ns in times else "", count


def _part(row: tuple[TenantQuarter, str, int], tenant: Tenant, catalog: Catalog, now: datetime) -> QuotedPart:
    quarter, gpu_type, count = row
    book, held = _book(catalog, quarter.start_ns, now), tariff.terms_at(tenant, quarter.start_ns)
    price = None
    if gpu_type:
        price = gpu_price(book, gpu_type, quarter.start_ns, tenant=tenant.id, adapter=quarter.adapter)
    times = (gpu_hours(ns, count) for ns in (quarter.base_ns, quarter.adapter_ns, 0))
    cost = TenantCost(quarter, gpu_type, count, price or Decimal(0), *times)
    payer = tariff.payer(book, quarter.status)
    if payer is None:
        raise PayerMissing(tenant.id, quarter.status, book.version)
    charges = plan_charges(held.plan, [cost], (), book.currency) if payer == "tenant" else []
    asked = tuple(charge for charge in charges if charge.quantity)
    start = to_datetime(quarter.start_ns)
    known = None if price is None else trimmed(price)
    return QuotedPart(
        start, book.version, gpu_type or None, known, trimmed(cost.gpu_hours), trimmed(cost.cost), payer, asked
    )


def _book(catalog: Catalog, at_ns: int, now: datetime) -> PriceBook:
    return book_as_of(catalog.price_books, to_datetime(hour_start(at_ns)), now)


def _unknown(record: UsageRecord, held: Tenant, parts: tuple[QuotedPart, ...]) -> Iterator[str]:
    if all(part.payer == "provider" for part in parts):
        return
    if isinstance(held.plan, CostPlus):
        if record.slices is None:
            yield "slices are null: the plan charges engine time, and nobody measured it"
    else:
        yield from (f"{name} is null: the plan charges tokens" for name in _TOKENS if getattr(record, name) is None)


def _terms(
    tenant: Tenant, book: PriceBook, month: BillingMonth, last_ns: int, record: UsageRecord
) -> Iterator[tuple[str, str]]:
    since_ns, held, _ = [one for one in tariff.standing(tenant) if one[0] <= last_ns][-1]
    yield "instant", to_datetime(last_ns).isoformat()
    yield "billing month", f"{month.text} in {month.zone}"
    yield "tenant's terms", f"those since {to_datetime(since_ns).isoformat()}" if since_ns else "those since ever"
    if isinstance(held.plan, CostPlus):
        yield "plan", f"cost_plus, margin {held.plan.margin:f}"
    else:
        prices = f"input {held.plan.input:f}, cached {held.plan.cached_input:f}, output {held.plan.output:f}"
        yield "plan", f"per_token, {prices} per million"
    since = "always" if book.effective_from is None else book.effective_from.isoformat()
    yield "price book", f"{book.version}, effective from {since}, in {book.currency}"
    yield "who pays", f"{tariff.payer(book, record.status.value)}, for status {record.status.value}"
    yield "tax", f"{held.tax_treatment}, {held.tax_rate:f}, on the invoice's sum"


def _gpu_prices(parts: tuple[QuotedPart, ...], catalog: Catalog, now: datetime) -> Iterator[tuple[str, str]]:
    for part in parts:
        if part.price is not None:
            hour = tariff.hour_begins(to_ns(part.start))
            book = book_as_of(catalog.price_books, hour, now)
            since = max(row.start for row in book.gpu_hours if row.gpu_type == part.gpu_type and row.start <= hour)
            yield f"GPU-hour of {part.gpu_type}, {hour:%Y-%m-%d %H} UTC", f"{part.price:f} since {since.isoformat()}"


def _beside(tenant: Tenant, held: Tenant, book: PriceBook, month: BillingMonth) -> Iterator[str]:
    """What holds for the month as a whole, by the terms of its last instant."""
    agreed = tariff.terms_at(tenant, month.end_ns - 1)
    contract = contract_of(agreed, month)
    if contract.discount:
        yield f"discount {contract.discount.id}: {contract.discount.fraction:f} of usage above {contract.discount.above:f}"
    if contract.commitment:
        yield f"commitment: {contract.commitment.fee:f} a month, overage at {contract.commitment.overage:f}"
    if contract.minimum:
        yield f"minimum: {contract.minimum:f} a month"
    if isinstance(held.plan, CostPlus):
        yield "adapter loading (T_cold), shared by requests when the month is over"
        if book.idle != "provider":
            yield f"idle time, shared by {book.idle}"
    if agreed.currency != book.currency:
        dated = any(
            rate.currency == agreed.currency and month.first_day <= rate.day <= month.last_day for rate in book.fx
        )
        rate = exchange(agreed, book, month) if dated else None
        said = (
            f"1 {rate.base} = {rate.rate:f} {rate.quote} of {rate.day}"
            if rate
            else "the last rate of the month, not known yet"
        )
        yield f"conversion to {agreed.currency}: {said}"
    yield "tax, and the rounding of the invoice's lines"
