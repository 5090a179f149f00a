"""Price books with their dates, and the seller who invoices by them."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Final, Literal

from pydantic import Field

from catalog.fields import (
    Currency,
    Day,
    Email,
    Iban,
    Instant,
    Line,
    Name,
    Price,
    Prose,
    Rate,
    Series,
    TaxId,
    Value,
    refuse_bool,
)

Status = Literal["ok", "client_abort", "bad_request", "rejected", "server_error", "timeout", "lost"]
Payer = Literal["tenant", "provider"]
IdlePolicy = Literal["provider", "usage", "residency"]
PAYERS: Final[dict[Status, Payer]] = {
    "ok": "tenant",
    "client_abort": "tenant",
    "bad_request": "provider",
    "rejected": "provider",
    "server_error": "provider",
    "timeout": "provider",
    "lost": "provider",
}
"""Who pays for an attempt of each status where a book does not say."""


GAP_SERIES: Final = "GAP"
"""What gaps that the provider took on are numbered with."""


class GpuPrice(Value):
    """Price of one GPU-hour of `gpu_type` from `start` on (until the next entry of that type)."""

    gpu_type: Name
    start: Instant
    per_hour: Price


class FxRate(Value):
    """On `day` one unit of the price book's currency bought `rate` units of `currency`, as `source` published it."""

    currency: Currency
    day: Day
    rate: Rate
    source: Line


class PriceBook(Value):
    """GPU-hour prices, exchange rates, who carries idle, and which statuses a tenant pays for.

    A version holds for events from `effective_from` on and is known from `known_from` on; None means always. A price that
    was wrong is put right by a new version, never by changing this one.
    """

    version: Name
    currency: Currency = "EUR"
    note: Prose | None = None
    effective_from: Instant | None = None
    known_from: Instant | None = None
    fx: tuple[FxRate, ...] = ()
    gpu_hours: tuple[GpuPrice, ...]
    idle: IdlePolicy = "provider"
    charged: dict[Status, Payer] = PAYERS

    def price(self, gpu_type: str, at: datetime) -> Decimal | None:
        """Price of a GPU-hour at that instant; None when the book has none (an error for whoever needs it)."""
        rows = [row for row in self.gpu_hours if row.gpu_type == gpu_type and row.start <= at]
        return max(rows, key=lambda row: row.start).per_hour if rows else None


class Seller(Value):
    """Who issues the invoices.

    An invoice says where the rented GPU time went: with `show_other_customers` also how much of it other customers used,
    which tells one of two customers exactly what the other did; without it only in one sum with adapter loads, engine
    overhead and idle time.
    """

    name: Line
    address: Annotated[tuple[Line, ...], Field(min_length=1, max_length=8)]
    tax_id: TaxId
    email: Email
    iban: Iban | None = None
    payment_days: Annotated[int, Field(ge=0, le=365), refuse_bool] = 30
    number_series: Series = "LL"
    credit_series: Series = "CN"
    show_other_customers: bool = False
