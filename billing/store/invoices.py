"""Drafts and issued invoices: drafts are replaced each time, issued ones enter the chain once and never change."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from billing.close import GRACE_NS, charges_something, numbered, refusals
from billing.documents.json_file import invoice_json
from billing.invoice import Invoice
from billing.periods import BillingMonth, to_ns
from billing.store import versions
from billing.store.catalog_history import remember_catalog
from billing.store.clickhouse import Ledger
from billing.store.corrections import corrections_due
from billing.store.drafting import Desk
from billing.store.errors import CloseRefused
from billing.store.finance import month_state, month_window
from billing.store.issuing import BATCH, Issued, free_number, issue, issued_invoices
from billing.store.postings import post
from catalog.load import version
from catalog.model import Catalog

_KIND: Final = "invoice"


def drafts(ledger: Ledger, month: str, catalog: Catalog, now: datetime) -> list[Invoice]:
    """A draft for each tenant that used something in the month, owes a minimum or a fee, or has a correction to come.

    Nothing is written. Raises what rating and drafting raise: NotConserved, PayerMissing, ExchangeMissing, InvoiceInvalid.
    """
    desk = Desk(ledger, catalog, now)
    idle, corrections = desk.idle_shares(month), corrections_due(desk, month)
    active = {row["tenant"] for row in ledger.read("active_tenants", {"month": month})}
    earlier = {invoice.tenant: invoice for invoice in issued(ledger, BillingMonth(month).previous().text)}
    return [
        desk.draft(
            tenant, month, idle.get(tenant.id, ()), earlier.get(tenant.id), corrections=corrections.get(tenant.id, ())
        )
        for tenant in sorted(catalog.tenants, key=lambda t: t.id)
        if tenant.id in active or tenant.plan.minimum or tenant.commitment or corrections.get(tenant.id)
    ]


def write_drafts(ledger: Ledger, month: str, catalog: Catalog, now: datetime) -> list[Invoice]:
    """Replace the month's drafts by what the ledger says now; tenants with an issued invoice have none.

    Once the month is closed, only those have one that closing it again would issue.
    """
    fresh = _open_drafts(ledger, month, catalog, now)
    if ledger.read("period_closed", {"month": month}):
        fresh = [draft for draft in fresh if charges_something(draft)]
    _replace_drafts(ledger, month, fresh, now)
    return fresh


def issue_month(
    ledger: Ledger, month: str, catalog: Catalog, now: datetime, *, grace_ns: int = GRACE_NS
) -> list[Invoice]:
    """Close the month: number, freeze and chain an invoice for each tenant with a charge and none yet; all of the month's.

    Numbers continue the seller's series of the year without gaps, in the order of tenant ids; a tenant that is charged
    nothing gets no document. Run again, also after a crash or beside another run, it completes what is missing and issues
    nothing twice. CloseRefused, listing everything that is red, when the month may not be closed and was not.
    """
    _settle(ledger, issued_invoices(ledger, month))
    if reasons := refusals(month_state(ledger, month, catalog), to_ns(now), grace_ns):
        if ledger.read("period_closed", {"month": month}):
            return issued(ledger, month)
        raise CloseRefused(month, reasons)
    remember_catalog(ledger, catalog, now)
    series, today = catalog.seller.number_series, now.date()

    def make() -> list[Invoice]:
        waiting = [draft for draft in _open_drafts(ledger, month, catalog, now) if charges_something(draft)]
        return numbered(waiting, series, free_number(ledger, series, today.year), today)

    while len(issue(ledger, make, now)) == BATCH:
        pass
    documents = issued_invoices(ledger, month)
    _settle(ledger, documents)
    _remember_close(ledger, month, catalog, len(documents), now)
    _replace_drafts(ledger, month, [], now)
    return [one.invoice() for one in documents]


def issued(ledger: Ledger, month: str) -> list[Invoice]:
    """The issued invoices of a month, as they were sent; InvoiceInvalid when one was tampered with."""
    return [one.invoice() for one in issued_invoices(ledger, month)]


def _open_drafts(ledger: Ledger, month: str, catalog: Catalog, now: datetime) -> list[Invoice]:
    done = {one.tenant for one in issued_invoices(ledger, month)}
    return [draft for draft in drafts(ledger, month, catalog, now) if draft.tenant not in done]


def _settle(ledger: Ledger, documents: Sequence[Issued]) -> None:
    """Write what follows from issued invoices and is not there yet: rows for finance, lines first, and postings."""
    months = {one.month for one in documents}

    def missing(query: str) -> list[Issued]:
        there = {row["number"] for month in months for row in ledger.read(query, {"month": month})}
        return [one for one in documents if one.number not in there]

    for table, rows in (
        (
            "invoice_line_versions",
            [(one, line) for one in missing("invoice_line_copies") for line in _lines(one.invoice())],
        ),
        ("invoice_versions", [(one, _row(one.invoice(), one)) for one in missing("invoice_copies")]),
    ):
        columns = list(rows[0][1]) if rows else []
        block = [[*row.values(), to_ns(one.issued_at), 0] for one, row in rows]
        ledger.insert(table, [*columns, "version", "deleted"], block)
    post(ledger)


def _replace_drafts(ledger: Ledger, month: str, fresh: Sequence[Invoice], now: datetime) -> None:
    key = ("tenant", "billing_month", "kind", "number")
    old_lines, new_lines = (
        ledger.read("invoice_lines_draft", {"month": month}),
        [line for draft in fresh for line in _lines(draft)],
    )
    versions.apply(ledger, "invoice_line_versions", versions.change(old_lines, new_lines, (*key, "line")), to_ns(now))
    old = ledger.read("invoices_draft", {"month": month})
    versions.apply(
        ledger, "invoice_versions", versions.change(old, [_row(draft, None) for draft in fresh], key), to_ns(now)
    )


def _row(invoice: Invoice, place: Issued | None) -> dict[str, Any]:
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
        "document": place.document if place else invoice_json(invoice).decode(),
        "hash": place.hash if place else "",
        "prev_hash": place.prev_hash if place else "",
    }


def _lines(invoice: Invoice) -> list[dict[str, Any]]:
    return [
        {
            "tenant": invoice.tenant,
            "billing_month": invoice.month,
            "kind": _KIND,
            "number": invoice.number or "",
            "line": line.position,
            "item": line.kind.value,
            "description": line.description,
            "quantity": line.quantity,
            "unit": line.unit,
            "unit_price": line.unit_price,
            "exact": line.exact,
            "amount": line.amount,
            "currency": invoice.currency,
        }
        for line in invoice.lines
    ]


def _remember_close(ledger: Ledger, month: str, catalog: Catalog, documents: int, now: datetime) -> None:
    if [row["documents"] for row in ledger.read("period_closed", {"month": month})] == [documents]:
        return
    start_ns, end_ns = month_window(month, catalog)
    cost = ledger.read("attributed_cost_window", {"start_ns": start_ns, "end_ns": end_ns})[0]["cost_sum"]
    ledger.insert(
        "billing_period_versions",
        ["billing_month", "version", "status", "closed_at", "catalog_version", "documents", "cost", "currency"],
        [[month, to_ns(now), "closed", now, version(catalog), documents, cost, catalog.prices.currency]],
    )
