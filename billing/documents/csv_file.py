"""An invoice as CSV: one row per line, tax rate and total, then the detail by adapter and status."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from billing.invoice import Invoice
from billing.rating import CostStatement

_COLUMNS: Final = (
    "invoice", "state", "tenant", "month", "currency", "record", "position", "item", "description", "quantity", "unit",
    "unit_price", "exact_amount", "amount", "tax_rate", "tax_base", "payer", "requests", "input_tokens", "cached_input_tokens",
    "output_tokens", "t_b_gpu_ns", "t_a_gpu_ns", "t_kv_gpu_ns_estimated", "t_cold_gpu_ns", "measured_gpu_ns", "gpu_hours", "cost",
)  # fmt: skip

Cell = str | int | Decimal | None
Row = dict[str, Cell]


def invoice_csv(invoice: Invoice) -> bytes:
    """RFC 4180, UTF-8, one header row; decimals with a dot and no thousands separator, empty where nothing applies.

    `record` says what a row is: `line`, `tax`, `net`, `gross`, `due`, `statement`, `adapter` or `status`. Only `line`
    rows sum to the net amount. Text that a spreadsheet would run as a formula gets a leading apostrophe.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, _COLUMNS, lineterminator="\r\n", restval="")
    writer.writeheader()
    common: Row = {
        "invoice": invoice.number,
        "state": invoice.state,
        "tenant": invoice.tenant,
        "month": invoice.month,
        "currency": invoice.currency,
    }
    for row in _rows(invoice):
        writer.writerow({name: _text(value) for name, value in (common | row).items()})
    return out.getvalue().encode()


def _rows(invoice: Invoice) -> Iterator[Row]:
    for line in invoice.lines:
        description = line.description if line.note is None else f"{line.description}, {line.note}"
        yield {
            "record": "line",
            "position": line.position,
            "item": line.kind.value,
            "description": description,
            "quantity": line.quantity,
            "unit": line.unit,
            "unit_price": line.unit_price,
            "exact_amount": line.exact,
            "amount": line.amount,
            "tax_rate": line.tax_rate,
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
        yield {
            "record": "adapter",
            "item": part.adapter,
            "requests": part.requests,
            "input_tokens": part.input_tokens,
            "cached_input_tokens": part.cached_tokens,
            "output_tokens": part.output_tokens,
            "exact_amount": part.charged,
            **_cost(part.statement),
        }
    for status in invoice.statuses:
        yield {
            "record": "status",
            "item": status.status,
            "payer": status.payer,
            "requests": status.requests,
            "gpu_hours": status.gpu_hours,
            "cost": status.cost,
        }


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
