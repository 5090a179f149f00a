"""Drafts and issued invoices: built from the ledger's rows, drafts replaced each time, issued ones written once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from billing.attribution import IdleTime, share_idle
from billing.close import free_sequence, refusals
from billing.documents.json_file import invoice_json, read_invoice
from billing.invoice import Invoice, Reconciliation, draft_invoice, issue_invoice
from billing.periods import BillingMonth, to_ns
from billing.rating import rate_tenant
from billing.store import versions
from billing.store.clickhouse import Ledger
from billing.store.errors import CloseRefused
from billing.store.finance import month_state, month_window
from billing.store.rows import text_hash
from billing.store.tenant_cost import tenant_month
from catalog.load import version
from catalog.model import Catalog

_KIND: Final = "invoice"
_OWNERS: Final = ("cold", "recompute", "system", "idle", "unattributed", "down", "rented")
_DEFAULT_METHOD: Final = "engine-step/1"


def drafts(ledger: Ledger, month: str, catalog: Catalog, now: datetime) -> list[Invoice]:
    """A draft for each tenant that used something in the month, or owes a minimum; nothing is written.

    Raises what rating and drafting raise: NotConserved, PayerMissing, CurrencyMismatch, InvoiceInvalid.
    """
    found = []
    idle = _idle_shares(ledger, BillingMonth(month), catalog)
    before = issued(ledger, BillingMonth(month).previous().text)
    earlier = {invoice.tenant: invoice for invoice in before}
    for tenant in sorted(catalog.tenants, key=lambda t: t.id):
        period = BillingMonth(month, tenant.time_zone)
        rows = tenant_month(ledger, tenant.id, period)
        if not rows and not tenant.plan.minimum:
            continue
        window = {"start_ns": period.start_ns, "end_ns": period.end_ns}
        provenance = ledger.read("tenant_provenance", {"tenant": tenant.id, **window})[0]
        found.append(
            draft_invoice(
                rate_tenant(tenant, rows, catalog.prices, idle.get(tenant.id, ())),
                tenant,
                catalog.seller,
                catalog.prices,
                period,
                cutoff=now,
                method=", ".join(sorted(provenance["methods"])) or _DEFAULT_METHOD,
                profiles=provenance["profiles"],
                reconciliation=_reconciliation(ledger, tenant.id, window),
                previous=earlier.get(tenant.id),
            )
        )
    return found


def write_drafts(ledger: Ledger, month: str, catalog: Catalog, now: datetime) -> list[Invoice]:
    """Replace the month's drafts by what the ledger says now; tenants with an issued invoice have none."""
    done = {invoice.tenant for invoice in issued(ledger, month)}
    fresh = [draft for draft in drafts(ledger, month, catalog, now) if draft.tenant not in done]
    _replace_drafts(ledger, month, fresh, now)
    return fresh


def issue_month(ledger: Ledger, month: str, catalog: Catalog, now: datetime) -> list[Invoice]:
    """Close the month: number, freeze and chain an invoice for each tenant that has none yet; all of the month's invoices.

    Numbers continue the seller's series of the year without gaps, in the order of tenant ids. Run again, it issues
    nothing new. CloseRefused, listing everything that is red, when the month may not be closed.
    """
    if reasons := refusals(month_state(ledger, month, catalog), to_ns(now)):
        raise CloseRefused(month, reasons)
    every = ledger.read("invoices_issued", {"month": ""})
    done = {row["tenant"] for row in every if row["billing_month"] == month}
    series, today = catalog.seller.number_series, now.date()
    first = free_sequence([row["number"] for row in every], series, today.year)
    new = [draft for draft in drafts(ledger, month, catalog, now) if draft.tenant not in done]
    invoices = [issue_invoice(draft, series, first + rank, today) for rank, draft in enumerate(new)]
    ledger.insert(
        "invoice_line_versions", *_block([line for invoice in invoices for line in _lines(invoice)], to_ns(now))
    )
    previous = every[-1]["hash"] if every else ""
    rows = []
    for invoice in invoices:
        rows.append(_row(invoice, now, previous))
        previous = rows[-1]["hash"]
    ledger.insert("invoice_versions", *_block(rows, to_ns(now)))
    _replace_drafts(ledger, month, [], now)
    if rows or not done:
        _remember_close(ledger, month, catalog, len(done) + len(rows), now)
    return issued(ledger, month)


def issued(ledger: Ledger, month: str) -> list[Invoice]:
    """The issued invoices of a month, as they were sent; InvoiceInvalid when one was tampered with."""
    rows = ledger.read("invoices_issued", {"month": month})
    return [read_invoice(row["document"].encode()) for row in rows]


def broken_links(ledger: Ledger) -> list[str]:
    """Numbers whose hash does not follow from the document and the one before it; empty when the chain is whole."""
    previous, broken = "", []
    for row in ledger.read("invoices_issued", {"month": ""}):
        if row["prev_hash"] != previous or row["hash"] != _link(previous, row["number"], row["document"]):
            broken.append(row["number"])
        previous = row["hash"]
    return broken


def _link(previous: str, number: str, document: str) -> str:
    return text_hash(f"{previous}\n{number}\n{document}")


def _replace_drafts(ledger: Ledger, month: str, fresh: Sequence[Invoice], now: datetime) -> None:
    key = ("tenant", "billing_month", "kind", "number")
    old_lines, new_lines = (
        ledger.read("invoice_lines_draft", {"month": month}),
        [line for draft in fresh for line in _lines(draft)],
    )
    versions.apply(ledger, "invoice_line_versions", versions.change(old_lines, new_lines, (*key, "line")), to_ns(now))
    old = ledger.read("invoices_draft", {"month": month})
    versions.apply(
        ledger, "invoice_versions", versions.change(old, [_row(draft, None, "") for draft in fresh], key), to_ns(now)
    )


def _row(invoice: Invoice, issued_at: datetime | None, previous: str) -> dict[str, Any]:
    document, number = invoice_json(invoice).decode(), invoice.number or ""
    return {
        "tenant": invoice.tenant,
        "billing_month": invoice.month,
        "kind": _KIND,
        "number": number,
        "status": invoice.state,
        "issued_at": issued_at,
        "currency": invoice.currency,
        "net": invoice.net,
        "tax": invoice.tax,
        "gross": invoice.gross,
        "document": document,
        "hash": _link(previous, number, document) if number else "",
        "prev_hash": previous,
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


def _block(rows: Sequence[dict[str, Any]], at: int) -> tuple[list[str], list[list[Any]]]:
    columns = list(rows[0]) if rows else []
    return [*columns, "version", "deleted"], [[*row.values(), at, 0] for row in rows]


def _reconciliation(ledger: Ledger, tenant: str, window: dict[str, int]) -> Reconciliation:
    owned = ledger.read("owners_window", window)[0]
    mine = sum(row["gpu_ns"] for row in ledger.read("measured_window", window) if row["tenant"] == tenant)
    return Reconciliation(mine, owned["tenants"] - mine, *(owned[name] for name in _OWNERS))


def _idle_shares(ledger: Ledger, month: BillingMonth, catalog: Catalog) -> dict[str, tuple[IdleTime, ...]]:
    window = {"start_ns": month.start_ns, "end_ns": month.end_ns}
    idle = [IdleTime(row["gpu_type"], row["price"], row["hours_sum"]) for row in ledger.read("idle_window", window)]
    weights = Counter[str]()
    if catalog.prices.idle == "usage":
        weights.update(
            {
                row["tenant"]: row["gpu_ns"]
                for row in ledger.read("measured_window", window)
                if catalog.tenant(row["tenant"])
            }
        )
    elif catalog.prices.idle == "residency":
        for adapter in catalog.adapters:
            if adapter.owner is not None:
                weights[adapter.owner] += adapter.memory_budget_bytes
    return share_idle(idle, weights, catalog.prices.idle)


def _remember_close(ledger: Ledger, month: str, catalog: Catalog, documents: int, now: datetime) -> None:
    start_ns, end_ns = month_window(month, catalog)
    cost = ledger.read("attributed_cost_window", {"start_ns": start_ns, "end_ns": end_ns})[0]["cost_sum"]
    ledger.insert(
        "billing_period_versions",
        ["billing_month", "version", "status", "closed_at", "catalog_version", "documents", "cost", "currency"],
        [[month, to_ns(now), "closed", now, version(catalog), documents, cost, catalog.prices.currency]],
    )
