"""Prices as of event time and as of knowledge time: exact look-ups that name who asked when there is nothing to find."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from billing.errors import BookMissing, ExchangeMissing, PriceMissing
from billing.exact.canonical import text_hash
from billing.exact.money import product, round_currency, trimmed
from billing.exact.periods import BillingMonth
from catalog import tariff
from catalog.model import PriceBook, Tenant
from catalog.months import to_datetime


@dataclass(frozen=True, slots=True)
class Exchange:
    """On `day` one unit of `base` bought `rate` units of `quote`, as `source` published it."""

    base: str
    quote: str
    rate: Decimal
    day: date
    source: str

    def convert(self, amount: Decimal) -> Decimal:
        """The amount in `quote`, unrounded."""
        return product(amount, self.rate)


def book_as_of(books: Iterable[PriceBook], at: datetime, known_at: datetime) -> PriceBook:
    """The version that held at `at`, as it was known at `known_at`; BookMissing when there is none."""
    book = tariff.book_held(books, at, known_at)
    if book is None:
        raise BookMissing(at, known_at)
    return book


def book_hash(book: PriceBook) -> str:
    """SHA-256 (hex) of what the version says, not of its name, nor of when it became known or the order of its entries.

    So the content decides what is a new version: one changed rate is, an edited name is not.
    """
    content = book.model_dump(mode="json", exclude={"version", "note", "known_from"})
    for name in ("gpu_hours", "fx"):
        content[name] = sorted(json.dumps(row, sort_keys=True) for row in _shortest(content[name]))
    return text_hash(json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False))


def gpu_price(
    book: PriceBook, gpu_type: str, at_ns: int, *, tenant: str | None = None, adapter: str | None = None
) -> Decimal:
    """Price of a GPU-hour at that instant; PriceMissing, naming the tenant and adapter that used it, when there is none."""
    price = tariff.hour_price(book, gpu_type, at_ns)
    if price is None:
        raise PriceMissing(gpu_type, to_datetime(at_ns), book.version, tenant, adapter)
    return price


def exchange(tenant: Tenant, book: PriceBook, month: BillingMonth) -> Exchange | None:
    """The rate at which the tenant's month is invoiced: the last one dated in the billing month; None when none is needed.

    The day of the rate is a matter of the contract, so neither issue nor payment moves it. ExchangeMissing when the
    book has no rate of that month: another month's is never used.
    """
    if tenant.currency == book.currency:
        return None
    rates = [
        rate for rate in book.fx if rate.currency == tenant.currency and month.first_day <= rate.day <= month.last_day
    ]
    if not rates:
        raise ExchangeMissing(tenant.id, book.currency, tenant.currency, month.text, book.version)
    last = max(rates, key=lambda rate: rate.day)
    return Exchange(book.currency, tenant.currency, trimmed(last.rate), last.day, last.source)


def in_invoice_currency(amount: Decimal, exchange: Exchange | None, currency: str) -> Decimal:
    """An amount of the price book in the invoice's currency, converted if need be and rounded once."""
    return round_currency(exchange.convert(amount) if exchange else amount, currency)


def _shortest(rows: Iterable[dict[str, str]]) -> Iterable[dict[str, str]]:
    """Rows in which equal numbers are also written equally."""
    for row in rows:
        yield {
            name: f"{trimmed(Decimal(value)):f}" if name in ("per_hour", "rate") else value
            for name, value in row.items()
        }
