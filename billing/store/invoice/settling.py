"""What follows from issued invoices: their rows for finance, and the postings. Whoever writes them writes the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Final

from billing.close.postings import FIRST, Posting, document_postings
from billing.exact.canonical import written
from billing.exact.periods import to_ns
from billing.invoice.invoice import Invoice
from billing.store.clickhouse import Ledger
from billing.store.invoice.issuing import Issued, chain_after

_KIND: Final = "invoice"
_LINE: Final = ("description", "quantity", "unit", "unit_price", "exact", "amount")
"""Fields of Line whose column has the same name."""
DRAFT: Final = ""
"""What stands in the place of a draft's number."""


def settle(ledger: Ledger, documents: Sequence[Issued]) -> None:
    """Write what follows from issued invoices and is not there yet: rows for finance, lines first, and postings."""
    months = {one.billing_month for one in documents}

    def missing(query: str) -> list[Issued]:
        there = {row["number"] for month in months for row in ledger.read(query, {"month": month})}
        return [one for one in documents if one.number not in there]

    for table, rows in (
        (
            "invoice_line_versions",
            [(one, line) for one in missing("invoice_line_copies") for line in line_rows(one.invoice())],
        ),
        ("invoice_versions", [(one, invoice_row(one.invoice(), one)) for one in missing("invoice_copies")]),
    ):
        ledger.insert(table, [{**row, "version": to_ns(one.issued_at), "deleted": 0} for one, row in rows])
    post(ledger)


def invoice_row(invoice: Invoice, place: Issued | None) -> dict[str, Any]:
    """The invoice as finance reads it; a draft has no place in the chain."""
    return {
        "tenant": invoice.tenant,
        "billing_month": invoice.month,
        "kind": _KIND,
        "number": invoice.number or "",
        "status": invoice.state,
        "issued_at": place.issued_at if place else None,
        "currency": invoice.currency,
        "net": invoice.net,
        "tax": invoice.tax,
        "gross": invoice.gross,
        "document": place.document if place else written(invoice).decode(),
        "hash": place.hash if place else "",
        "prev_hash": place.prev_hash if place else "",
    }


def line_rows(invoice: Invoice) -> list[dict[str, Any]]:
    """Its lines, in their order."""
    return [
        {
            "tenant": invoice.tenant,
            "billing_month": invoice.month,
            "kind": _KIND,
            "number": invoice.number or "",
            "line": line.position,
            "item": line.kind.value,
            **{name: getattr(line, name) for name in _LINE},
            "currency": invoice.currency,
        }
        for line in invoice.lines
    ]


def post(ledger: Ledger) -> int:
    """Post every issued document that is not posted yet; how many postings. Whoever does it, and when, writes the same rows."""
    last = ledger.read("posted")
    previous: str = last[0]["hash"] if last else FIRST
    rows: list[dict[str, Any]] = []
    for one in chain_after(ledger, last[0]["position"] if last else 0):
        postings = document_postings(one.read(), previous)
        rows += [asdict(p) | {"position": one.position, "version": to_ns(one.issued_at)} for p in postings]
        previous = postings[-1].hash if postings else previous
    return ledger.insert("posting_versions", rows)


def postings(ledger: Ledger, tenant: str = "") -> list[Posting]:
    """Postings in the order of the ledger, of one tenant or all."""
    return [as_posting(row) for row in ledger.read("postings", {"tenant": tenant, "numbers": []})]


def as_posting(row: Mapping[str, Any]) -> Posting:
    """The posting of a row, whatever else stands in it."""
    return Posting(**{field.name: row[field.name] for field in fields(Posting)})
