"""Credit notes as FOCUS charges: negative rows of class Correction, for the month they take back, billed when they were issued."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from billing.errors import ExportInvalid
from billing.exact.money import negated, trimmed
from billing.exact.periods import BillingMonth
from billing.focus.charges import category
from billing.focus.model import Bill, ChargeCategory, ChargeRow, Document, detail_id, tax_detail_id
from billing.invoice.credit import CreditNote


def credit_charges(note: CreditNote) -> Document:
    """A row per line and tax rate of an issued credit note; ExportInvalid for a draft, which nobody owes anything for."""
    if note.number is None or note.issued_on is None:
        raise ExportInvalid(f"could not export the credit note on invoice {note.invoice}: it is a draft")
    period = BillingMonth(note.issued_on.strftime("%Y-%m"), note.time_zone)
    bill = Bill(
        invoice=note.number,
        reference=note.invoice,
        issued=True,
        tenant=note.tenant,
        tenant_name=note.buyer.name,
        plan="credit_note",
        issuer=note.seller.name,
        billing_month=period.text,
        start=period.start,
        end=period.end,
        currency=note.currency,
        price_book=note.price_book,
        method=note.reason,
        ledger_hash=note.ledger_hash or "",
    )
    return Document(bill, tuple(_rows(note, note.number)))


def _rows(note: CreditNote, number: str) -> Iterator[ChargeRow]:
    for line in note.lines:
        of = category(line.kind, line.charged)
        yield _row(note, detail_id(number, line.position), line.kind.value, of, line.description, line.amount)
    for position, group in enumerate(note.taxes, start=1):
        if group.amount:
            what = f"Tax, {trimmed(group.rate.scaleb(2)):f} %"
            yield _row(note, tax_detail_id(number, position), "tax", ChargeCategory.TAX, what, group.amount)


def _row(note: CreditNote, detail: str, item: str, of: ChargeCategory, description: str, amount: Decimal) -> ChargeRow:
    cost = trimmed(negated(amount))
    return ChargeRow(
        detail, item, of, f"{description}, credited on invoice {note.invoice}", note.start, note.end, cost,
        note.currency, cost, correction=True,
    )  # fmt: skip
