"""Invoices and credit notes as CSV: one row per line, tax rate and total, then an invoice's detail by adapter and status."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Final

from billing.invoice.credit import CreditNote
from billing.invoice.invoice import Invoice
from billing.invoice.rating import CostStatement

_COLUMNS: Final = (
    "invoice", "state", "tenant", "month", "currency", "record", "position", "item", "description", "quantity", "unit",
    "unit_price", "price_currency", "exact_amount", "exchange_rate", "amount", "corrects", "tax_rate", "tax_base", "payer", "requests", "input_tokens", "cached_input_tokens",
    "output_tokens", "t_b_gpu_ns", "t_a_gpu_ns", "t_kv_gpu_ns_estimated", "t_cold_gpu_ns", "measured_gpu_ns", "gpu_hours", "cost",
)  # fmt: skip
_CREDIT_COLUMNS: Final = (
    "credit_note", "state", "tenant", "month", "currency", "invoice", "invoice_date", "reason", "record", "position", "line", "item",
    "description", "quantity", "unit", "unit_price", "price_currency", "exchange_rate", "charged", "credited_before", "amount",
    "tax_rate", "tax_base",
)  # fmt: skip

Cell = str | int | Decimal | None
Row = dict[str, Cell]


def document_csv(document: Invoice | CreditNote) -> bytes:
    """RFC 4180, UTF-8, one header row; decimals with a dot and no thousands separator, empty where nothing applies.

    `record` says what a row is: `line`, `tax`, `net`, `gross`, `due`, `statement`, `adapter` or `status`; of a credit note
    `line`, `tax`, `net`, `gross` or `remaining`, and its `line` is the invoice's line. Only `line` rows sum to the net
    amount. `amount` is in `currency`, unit prices, exact amounts and costs are in `price_currency`. Text that a spreadsheet
    would run as a formula gets a leading apostrophe.
    """
    common = _own(document, ("state", "tenant", "month", "currency"))
    if isinstance(document, Invoice):
        common |= {"invoice": document.number, "price_currency": document.price_currency}
        return _written(_COLUMNS, common, _rows(document))
    common |= {"credit_note": document.number, "invoice": document.invoice, "reason": document.reason}
    common |= {"invoice_date": document.invoice_issued_on.isoformat()}
    return _written(_CREDIT_COLUMNS, common, _credit_rows(document))


def _written(columns: Sequence[str], common: Row, rows: Iterable[Row]) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\r\n", restval="")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _text(value) for name, value in (common | row).items()})
    return out.getvalue().encode()


def _own(value: object, columns: Iterable[str]) -> Row:
    """What the value says under the columns' own names."""
    return {name: getattr(value, name) for name in columns if hasattr(value, name)}


def _credit_rows(note: CreditNote) -> Iterator[Row]:
    for line in note.lines:
        unit = line.unit if line.quantity is not None else None
        yield _own(line, _CREDIT_COLUMNS) | {"record": "line", "item": line.kind.value, "unit": unit}
    yield {"record": "net", "amount": note.net}
    for group in note.taxes:
        yield {"record": "tax", "tax_base": group.base, "tax_rate": group.rate, "amount": group.amount}
    yield {"record": "gross", "amount": note.gross}
    yield {"record": "remaining", "amount": note.remaining_gross}


def _rows(invoice: Invoice) -> Iterator[Row]:
    for line in invoice.lines:
        description = line.description if line.note is None else f"{line.description}, {line.note}"
        yield _own(line, _COLUMNS) | {
            "record": "line",
            "item": line.kind.value,
            "description": description,
            "exact_amount": line.exact,
            "corrects": line.corrects.number if line.corrects else None,
        }
    yield {"record": "net", "amount": invoice.net}
    for group in invoice.taxes:
        yield {"record": "tax", "tax_base": group.base, "tax_rate": group.rate, "amount": group.amount}
    yield {"record": "gross", "amount": invoice.gross}
    yield {"record": "due", "amount": invoice.due}
    yield {
        "record": "statement",
        "requests": invoice.requests,
        "output_tokens": invoice.output_tokens,
        **_cost(invoice.statement),
    }
    for part in invoice.adapters:
        yield _own(part, _COLUMNS) | {
            "record": "adapter",
            "item": part.adapter,
            "cached_input_tokens": part.cached_tokens,
            "exact_amount": part.charged,
            **_cost(part.statement),
        }
    for status in invoice.statuses:
        yield _own(status, _COLUMNS) | {"record": "status", "item": status.status}


def _cost(statement: CostStatement) -> Row:
    return {
        "t_b_gpu_ns": statement.t_b.gpu_ns,
        "t_a_gpu_ns": statement.t_a.gpu_ns,
        "t_kv_gpu_ns_estimated": statement.t_kv.gpu_ns,
        "t_cold_gpu_ns": statement.t_cold.gpu_ns,
        "measured_gpu_ns": statement.measured.gpu_ns,
        "gpu_hours": statement.measured.gpu_hours,
        "cost": statement.measured.cost,
    }


def _text(value: Cell) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return f"'{value}"
    return "" if value is None else str(value)
