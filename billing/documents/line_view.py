"""Lines of printed documents: quantities and prices as people read them, and what is said beside a line."""

from __future__ import annotations

from decimal import Decimal

from billing.documents.formats import grouped, hours, money, unit_price
from billing.invoice.credit import CreditLine
from billing.invoice.invoice import Invoice
from billing.invoice.lines import Line, percent
from billing.invoice.plans import ChargeKind


def line_rows(invoice: Invoice) -> list[dict[str, str | None]]:
    """The lines of an invoice. Where GPU time has several prices, each begins with words that say which; a correction says of which GPU it is.

    LoRA's share of the month is on its line only where there is one.
    """
    many = len({_group(line) for line in invoice.lines} - {""}) > 1
    rows: list[dict[str, str | None]] = []
    before = ""
    for line in invoice.lines:
        group = _group(line) if many else ""
        note = line.note if not line.corrects else ", ".join(part for part in (line.note, line.gpu_type) if part)
        rows.append(
            {
                "group": group if group != before else "",
                "description": line.description,
                "note": None if group and line.kind is ChargeKind.LORA else note,
                "quantity": quantity_text(line.quantity, line.unit),
                "unit": line.unit,
                "price": price_text(line, invoice.currency),
                "amount": money(line.amount, invoice.currency),
            }
        )
        before = group
    return rows


def quantity_text(quantity: Decimal, unit: str) -> str:
    """A count of items, a sum of money (unit: a currency), or hours and millions of tokens with six decimals."""
    if unit == "item":
        return grouped(quantity)
    return money(quantity, unit) if is_currency(unit) else hours(quantity)


def price_text(line: Line | CreditLine, currency: str) -> str:
    """A unit price with every digit, a share of money in percent; with its currency where that is not the document's."""
    if is_currency(line.unit):
        return percent(line.unit_price)
    return ("" if line.price_currency == currency else f"{line.price_currency} ") + unit_price(line.unit_price)


def is_currency(unit: str) -> bool:
    """Whether a line's quantity is a sum of money."""
    return len(unit) == 3 and unit.isupper()


def _group(line: Line) -> str:
    if line.gpu_type is None or line.corrects:
        return ""
    return f"{line.gpu_type} at {line.price_currency} {unit_price(line.unit_price)} per {line.unit}"
