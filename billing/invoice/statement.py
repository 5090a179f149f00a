"""A tenant's account: every document it was sent, in order, and what of each invoice is not credited. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Literal

from billing.exact.amount import Amount
from billing.exact.money import negated
from billing.invoice.credit import CreditNote
from billing.invoice.invoice import Invoice


@dataclass(frozen=True, slots=True)
class AccountEntry:
    """One document with tax: `amount` is below zero where the customer gets money back, `balance` what all up to it come to.

    `invoice` is the number of the invoice that it is, or lowers. `open` is what of an invoice's amount no credit note takes
    back, None for a credit note.
    """

    booked_on: date
    kind: Literal["invoice", "credit_note"]
    number: str
    month: str
    invoice: str
    due_on: date | None
    amount: Decimal
    balance: Decimal
    open: Decimal | None


@dataclass(frozen=True, slots=True)
class TenantAccount:
    """A tenant's documents in one currency, in the order of issue. `open` = `invoiced` - `credited`: before anything that was paid.

    `overdue` is what of it was due before the statement's day.
    """

    tenant: str
    currency: str
    as_of: date
    entries: tuple[AccountEntry, ...]
    invoiced: Decimal
    credited: Decimal
    open: Decimal
    overdue: Decimal


def accounts(tenant: str, documents: Iterable[Invoice | CreditNote], as_of: date) -> tuple[TenantAccount, ...]:
    """One account for each currency that the tenant was ever invoiced in, of issued documents up to and on `as_of`."""
    own = [one for one in documents if one.issued_on is not None and one.issued_on <= as_of]
    return tuple(
        _account(tenant, currency, as_of, [one for one in own if one.currency == currency])
        for currency in sorted({one.currency for one in own})
    )


def _account(tenant: str, currency: str, as_of: date, documents: list[Invoice | CreditNote]) -> TenantAccount:
    nothing = Amount(Decimal(0), currency)
    balance, taken = nothing, dict.fromkeys((_invoice(one) for one in documents), nothing)
    for one in documents:
        if isinstance(one, CreditNote):
            taken[one.invoice] += Amount(one.gross, currency)
    entries = []
    for one in documents:
        amount = Amount(one.gross if isinstance(one, Invoice) else negated(one.gross), currency)
        balance += amount
        number, left = _invoice(one), None
        if isinstance(one, Invoice):
            left = (amount - taken[number]).value
        entries.append(_entry(one, number, amount.value, balance.value, left))
    invoiced = Amount.sum((one.amount for one in entries if one.kind == "invoice"), currency)
    overdue = (one.open for one in entries if one.open is not None and one.due_on is not None and one.due_on < as_of)
    sums = (invoiced.value, (invoiced - balance).value, balance.value, Amount.sum(overdue, currency).value)
    return TenantAccount(tenant, currency, as_of, tuple(entries), *sums)


def _entry(
    one: Invoice | CreditNote, invoice: str, amount: Decimal, balance: Decimal, left: Decimal | None
) -> AccountEntry:
    assert one.issued_on is not None
    number, due_on = one.number or "", one.due_on if isinstance(one, Invoice) else None
    kind: Literal["invoice", "credit_note"] = "invoice" if isinstance(one, Invoice) else "credit_note"
    return AccountEntry(one.issued_on, kind, number, one.month, invoice, due_on, amount, balance, left)


def _invoice(one: Invoice | CreditNote) -> str:
    return (one.number or "") if isinstance(one, Invoice) else one.invoice
