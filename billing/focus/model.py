"""One FOCUS charge as a value: what both versions of the specification say about it, under our own names."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final

DECIMALS: Final = 26
"""Decimals of a FOCUS amount: a quantity with 12 decimals times a price with 6 times an exchange rate with 8."""


class ChargeCategory(StrEnum):
    """What kind of charge a row is; the names are the specification's."""

    USAGE = "Usage"
    PURCHASE = "Purchase"
    TAX = "Tax"
    CREDIT = "Credit"
    ADJUSTMENT = "Adjustment"


@dataclass(frozen=True, slots=True)
class Bill:
    """What all rows of one document share: who bills whom, for which billing period ([start, end) in UTC), in which currency.

    `invoice` is the number of an issued document; a draft has `draft-<tenant>-<month>`, which changes when it is issued.
    `reference` is the document that this one adjusts, its own number otherwise.
    """

    invoice: str
    reference: str
    issued: bool
    tenant: str
    tenant_name: str
    plan: str
    issuer: str
    billing_month: str
    start: datetime
    end: datetime
    currency: str
    price_book: str
    method: str
    ledger_hash: str


@dataclass(frozen=True, slots=True)
class Price:
    """`quantity` of `unit` at `unit_price` (billing currency); `pricing_price` is the same price in `currency`, before conversion."""

    quantity: Decimal
    unit: str
    unit_price: Decimal
    pricing_price: Decimal
    sku: str
    meter: str
    instance: str | None


@dataclass(frozen=True, slots=True)
class ChargeRow:
    """One charge. `cost` is what it adds to the invoice, in the bill's currency; with a `price` it is quantity x unit price exactly.

    `detail` names the invoice line it belongs to, `item` what that line charges (`tax` and `adjustment` beside the kinds of
    charges). `pricing_cost` is the cost in `pricing_currency`. `consumed` is what was used (GPU-seconds, tokens), where it
    was usage. `start` and `end` are when the cost was incurred.
    """

    detail: str
    item: str
    category: ChargeCategory
    description: str
    start: datetime
    end: datetime
    cost: Decimal
    pricing_currency: str
    pricing_cost: Decimal
    price: Price | None = None
    consumed: Decimal | None = None
    consumed_unit: str | None = None
    resource: str | None = None
    resource_type: str | None = None
    correction: bool = False
    recurring: bool = False
    requests: int | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A bill and all of its rows; their costs sum to what the document asks for, or (negative) gives back."""

    bill: Bill
    rows: tuple[ChargeRow, ...]


def invoice_id(number: str | None, tenant: str, month: str) -> str:
    """The InvoiceId of a document: its number, or a name of its own while it is a draft."""
    return number or f"draft-{tenant}-{month}"


def detail_id(invoice: str, line: int) -> str:
    """The InvoiceDetailId of an invoice line."""
    return f"{invoice}/{line}"


def tax_detail_id(invoice: str, group: int) -> str:
    """The InvoiceDetailId of a tax group, counted from 1."""
    return f"{invoice}/tax-{group}"
