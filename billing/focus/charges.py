"""Invoices as FOCUS charges: hourly rows at full precision, and one Adjustment per line that closes the gap to its rounded amount.

Credit notes are negative rows of class Correction, for the month they take back, billed when they were issued.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final

from billing.cost.attribution import TenantCost
from billing.errors import ExportInvalid
from billing.exact.money import minor_units, negated, product, round_places, total, trimmed
from billing.exact.periods import BillingMonth, to_ns
from billing.focus.hours import GPU_SECONDS, TOKENS, HourUse, by_hour, consumed, quantity
from billing.focus.model import (
    DECIMALS,
    Bill,
    ChargeCategory,
    ChargeRow,
    Document,
    Price,
    detail_id,
    invoice_id,
    tax_detail_id,
)
from billing.invoice.credit import CreditNote
from billing.invoice.invoice import Invoice
from billing.invoice.lines import Corrects, Line
from billing.invoice.plans import TERM_KINDS, TOKEN_KINDS, ChargeKind
from billing.invoice.rating import ledger_hash
from telemetry.names import BASE

MONTHS: Final = "Months"
_METERS: Final = {
    ChargeKind.BASE: "Base Model Time",
    ChargeKind.LORA: "LoRA Time",
    ChargeKind.COLD: "Adapter Loading Time",
    ChargeKind.IDLE: "Idle Time",
    ChargeKind.INPUT: "Input Tokens",
    ChargeKind.CACHED_INPUT: "Cached Input Tokens",
    ChargeKind.OUTPUT: "Output Tokens",
    ChargeKind.MARGIN: "Service Margin",
    ChargeKind.COMMITMENT: "Monthly Commitment",
    ChargeKind.OVERAGE: "Usage Beyond Commitment",
    ChargeKind.MINIMUM: "Monthly Minimum",
}
_HOURLY: Final = {*TERM_KINDS, *TOKEN_KINDS}
_METERED: Final = (_HOURLY | {ChargeKind.IDLE}) - {ChargeKind.CACHE}
_DEDUCTIONS: Final = {ChargeKind.CACHE, ChargeKind.DISCOUNT, ChargeKind.COVERED}


def invoice_charges(invoice: Invoice, costs: Sequence[TenantCost], base_model: str) -> Document:
    """The charges of an invoice; `costs` are the tenant's rows of the month as the ledger has them.

    Where they are the rows that the invoice was made from (by its ledger hash), usage is shown by hour and adapter; where
    the ledger has learned more since, or a status changed its payer within the month, by invoice line. Either way rows sum to every line to the cent. ExportInvalid when
    they do not, which would be a fault of this function.
    """
    bill = _bill(invoice)
    payers = {status.status: status.payer for status in invoice.statuses}
    charged = [row for row in costs if payers.get(row.quarter.status) == "tenant"]
    told_apart = len(payers) == len(invoice.statuses)
    hourly = charged if told_apart and ledger_hash(costs) == invoice.ledger_hash else None
    rows: list[ChargeRow] = []
    for line in invoice.lines:
        made = list(_line_rows(line, invoice, bill, hourly, base_model))
        gap = total((line.amount, *(negated(row.cost) for row in made)))
        if made and line.corrects is None and abs(gap) * 2 > Decimal(1).scaleb(-minor_units(invoice.currency)):
            raise ExportInvalid(
                f"could not export invoice {bill.invoice}: rows of line {line.position} miss {gap} {invoice.currency} of its amount"
            )
        rows += made
        if gap:
            what = "Rounding" if made else line.description
            rows.append(_plain_row(bill, detail_id(bill.invoice, line.position), "adjustment", what, gap))
    for number, group in enumerate(invoice.taxes, start=1):
        if group.amount:
            what = f"Tax, {trimmed(group.rate.scaleb(2)):f} %"
            row = _plain_row(bill, tax_detail_id(bill.invoice, number), "tax", what, group.amount, ChargeCategory.TAX)
            rows.append(row)
    return Document(bill, tuple(rows))


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
    return Document(bill, tuple(_credit_rows(note, note.number)))


def category(kind: ChargeKind, amount: Decimal) -> ChargeCategory:
    """Which category a line of this kind is: usage (fees of the month are too), what is taken off (Credit), or rounding.

    A fee is no Purchase: a purchase that covers later usage would have to move its effective cost onto that usage.
    """
    if kind is ChargeKind.ROUNDING:
        return ChargeCategory.ADJUSTMENT
    fee = kind not in _METERED and kind is not ChargeKind.CORRECTION
    return ChargeCategory.CREDIT if kind in _DEDUCTIONS or (fee and amount < 0) else ChargeCategory.USAGE


def _line_rows(
    line: Line, invoice: Invoice, bill: Bill, hourly: Sequence[TenantCost] | None, base_model: str
) -> Iterator[ChargeRow]:
    """Rows of one line, before rounding; none for a line that is itself nothing but rounding."""
    if line.kind is ChargeKind.ROUNDING:
        return
    if line.corrects is not None:
        yield _correction(line, line.corrects, bill, invoice.time_zone)
    elif line.kind in _HOURLY and hourly is not None:
        mine = [
            row
            for row in hourly
            if (line.gpu_type is None or (row.gpu_type, row.price) == (line.gpu_type, line.unit_price))
            and _planned(line, row, invoice)
        ]
        for use in by_hour(mine, invoice.start, invoice.end):
            if row := _hour_row(line, use, bill):
                yield _placed(row, use, base_model)
    elif line.kind in _METERED:
        unit = TOKENS if line.kind in TOKEN_KINDS else GPU_SECONDS
        used = trimmed(product(line.quantity, Decimal(1_000_000 if unit == TOKENS else 3600)))
        if used:
            yield replace(_usage(line, bill, line.quantity), consumed=used, consumed_unit=unit)
    elif category(line.kind, line.amount) is ChargeCategory.CREDIT:
        yield _row(line, bill, ChargeCategory.CREDIT, line.exact, line.converted)
    else:
        yield _fee(line, bill)


def _planned(line: Line, row: TenantCost, invoice: Invoice) -> bool:
    """Whether the row is of the plan for which the line is."""
    later = [other.since for other in invoice.lines if line.since and other.since and other.since > line.since]
    at_ns = row.quarter.start_ns
    return line.since is None or (to_ns(line.since) <= at_ns and (not later or at_ns < to_ns(min(later))))


def _hour_row(line: Line, use: HourUse, bill: Bill) -> ChargeRow | None:
    amount = trimmed(quantity(line.kind, use.rows))
    if line.kind is ChargeKind.CACHE:
        exact = product(amount, line.unit_price)
        return _row(line, bill, ChargeCategory.CREDIT, exact, _converted(line, exact)) if amount else None
    used, unit = consumed(line.kind, use.rows)
    if not amount and not used:
        return None
    requests = use.requests if line.kind in (ChargeKind.BASE, ChargeKind.INPUT) else None
    return replace(_usage(line, bill, amount), consumed=trimmed(used), consumed_unit=unit, requests=requests)


def _placed(row: ChargeRow, use: HourUse, base_model: str) -> ChargeRow:
    name, kind = (base_model, "Base Model") if use.adapter == BASE else (use.adapter, "LoRA Adapter")
    description = f"{row.description}, {name}"
    return replace(
        row, start=use.start, end=use.end, resource=name, resource_type=kind, description=description
    )  # fmt: skip


def _usage(line: Line, bill: Bill, amount: Decimal) -> ChargeRow:
    meter = _METERS[line.kind]
    sku = _sku(meter) if line.gpu_type is None else f"{_sku(meter)}/{line.gpu_type}"
    unit = f"1000000 {TOKENS}" if line.kind in TOKEN_KINDS else "GPU-Hours"
    price = Price(amount, unit, _converted(line, line.unit_price), line.unit_price, sku, meter, line.gpu_type)
    exact, cost = product(amount, line.unit_price), product(amount, price.unit_price)
    return replace(_row(line, bill, ChargeCategory.USAGE, exact, cost), price=price)


def _fee(line: Line, bill: Bill) -> ChargeRow:
    """What is asked for the month as a whole: one month of it, at what it comes to."""
    meter, one = _METERS[line.kind], Decimal(1)
    row = _row(line, bill, ChargeCategory.USAGE, line.exact, line.converted)
    price = Price(one, MONTHS, row.cost, row.pricing_cost, _sku(meter), meter, None)
    return replace(row, price=price, consumed=one, consumed_unit=MONTHS, recurring=True)


def _correction(line: Line, corrects: Corrects, bill: Bill, zone: str) -> ChargeRow:
    then = BillingMonth(corrects.month, zone)
    row = _row(line, bill, category(line.kind, line.amount), line.amount, line.amount)
    return replace(row, start=then.start, end=then.end, correction=True, pricing_currency=bill.currency)


def _row(line: Line, bill: Bill, of: ChargeCategory, exact: Decimal, cost: Decimal) -> ChargeRow:
    return ChargeRow(
        detail=detail_id(bill.invoice, line.position),
        item=line.kind.value,
        category=of,
        description=line.description,
        start=bill.start,
        end=bill.end,
        cost=_kept(cost),
        pricing_currency=line.price_currency,
        pricing_cost=_kept(exact),
    )


def _plain_row(
    bill: Bill, detail: str, item: str, description: str, cost: Decimal, of: ChargeCategory = ChargeCategory.ADJUSTMENT
) -> ChargeRow:
    amount = _kept(cost)
    return ChargeRow(detail, item, of, description, bill.start, bill.end, amount, bill.currency, amount)


def _kept(amount: Decimal) -> Decimal:
    return trimmed(round_places(amount, DECIMALS))


def _sku(meter: str) -> str:
    return meter.lower().replace(" ", "-")


def _converted(line: Line, amount: Decimal) -> Decimal:
    return amount if line.exchange_rate is None else trimmed(product(amount, line.exchange_rate))


def _bill(invoice: Invoice) -> Bill:
    number = invoice_id(invoice.number, invoice.tenant, invoice.month)
    return Bill(
        invoice=number,
        reference=number,
        issued=invoice.state == "issued",
        tenant=invoice.tenant,
        tenant_name=invoice.buyer.name,
        plan=invoice.plan,
        issuer=invoice.seller.name,
        billing_month=invoice.month,
        start=invoice.start,
        end=invoice.end,
        currency=invoice.currency,
        price_book=invoice.price_book,
        method=invoice.method,
        ledger_hash=invoice.ledger_hash,
    )


def _credit_rows(note: CreditNote, number: str) -> Iterator[ChargeRow]:
    for line in note.lines:
        of = category(line.kind, line.charged)
        yield _credit_row(note, detail_id(number, line.position), line.kind.value, of, line.description, line.amount)
    for position, group in enumerate(note.taxes, start=1):
        if group.amount:
            what = f"Tax, {trimmed(group.rate.scaleb(2)):f} %"
            yield _credit_row(note, tax_detail_id(number, position), "tax", ChargeCategory.TAX, what, group.amount)


def _credit_row(
    note: CreditNote, detail: str, item: str, of: ChargeCategory, description: str, amount: Decimal
) -> ChargeRow:
    cost = trimmed(negated(amount))
    return ChargeRow(
        detail, item, of, f"{description}, credited on invoice {note.invoice}", note.start, note.end, cost,
        note.currency, cost, correction=True,
    )  # fmt: skip
