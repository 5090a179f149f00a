"""Lines of a document as EN 16931 items: quantity, unit code and net price in the document's currency."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from billing.exact.money import product
from billing.invoice.credit import CreditLine, CreditNote
from billing.invoice.invoice import Invoice
from billing.invoice.lines import Line

_HOUR: Final = "HUR"
_ONE: Final = "C62"
_MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Item:
    """`price` is never negative and is for `basis` units; a deduction has a negative quantity. `unit` is a UN/ECE Rec 20 code."""

    position: int
    name: str
    note: str | None
    quantity: Decimal
    unit: str
    price: Decimal
    basis: int
    amount: Decimal
    tax_rate: Decimal


def invoiced_items(invoice: Invoice) -> Iterator[Item]:
    """The lines of an invoice: GPU-hours in hours, tokens by the piece, shares of money as they are printed."""
    for line in invoice.lines:
        yield _item(line, line.quantity)


def credited_items(note: CreditNote) -> Iterator[Item]:
    """The lines of a credit note; one piece at the credited amount where the amount is not that of one quantity."""
    for line in note.lines:
        if line.quantity is not None:
            yield _item(line, line.quantity)
        else:
            count = Decimal(1).copy_sign(line.amount)
            yield Item(
                line.position, line.description, line.note, count, _ONE, abs(line.amount), 1, line.amount, line.tax_rate
            )


def _item(line: Line | CreditLine, quantity: Decimal) -> Item:
    rate = line.exchange_rate
    price = line.unit_price if rate is None else product(line.unit_price, rate)
    tokens = line.unit == "1M tokens"
    return Item(
        position=line.position,
        name=line.description,
        note=line.note,
        quantity=quantity.scaleb(6) if tokens else quantity,
        unit=_HOUR if line.unit == "GPU-hour" else _ONE,
        price=price,
        basis=_MILLION if tokens else 1,
        amount=line.amount,
        tax_rate=line.tax_rate,
    )
