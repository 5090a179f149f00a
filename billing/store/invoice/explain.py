"""Opens an issued invoice or a draft to the attempts behind each line, of that tenant alone."""

from __future__ import annotations

from collections import Counter, defaultdict

from billing.cost.facts import QuarterKey
from billing.cost.tenant_quarters import Part, merge
from billing.documents.json_file import read_invoice
from billing.exact.periods import to_ns
from billing.invoice.explain import AttemptId, AttemptQuarter, AttemptTime, Explained, explain_invoice
from billing.invoice.invoice import Invoice
from billing.store.clickhouse import Ledger
from billing.store.cost.tenant_cost import quarter_parts, tenant_month
from billing.store.errors import DraftMissing
from billing.store.invoice.settling import DRAFT


def explain(ledger: Ledger, invoice: Invoice) -> tuple[Explained, ...]:
    """Every line of the invoice with the attempts that it is made of; shares and rounding sum to each line exactly.

    From the facts as known now: what became known after the cut-off stands in shares of its own. No other tenant's rows
    are read. ExplanationInvalid when attempts have no cost rows (the month was not derived since they came).
    """
    window = {"start_ns": to_ns(invoice.start), "end_ns": to_ns(invoice.end)}
    rows = tenant_month(ledger, invoice.tenant, **window)
    return explain_invoice(invoice, rows, _attempts(ledger, invoice.tenant, window), _unpaid(ledger, invoice))


def kept_draft(ledger: Ledger, month: str, tenant: str | None = None) -> Invoice:
    """The draft of a tenant's month as it was last written; without a tenant, of the only one that has one. DraftMissing."""
    rows = {row["tenant"]: row["document"] for row in ledger.read("invoice_rows", {"numbers": [DRAFT], "month": month})}
    chosen = [name for name in sorted(rows) if tenant in (None, name)]
    if len(chosen) != 1:
        raise DraftMissing(month, tenant, sorted(rows))
    return read_invoice(rows[chosen[0]].encode())


def request_times(ledger: Ledger, tenant: str, request_id: str) -> list[AttemptTime]:
    """Engine time of a tenant's request, by attempt, as known now; empty when the tenant has no such request."""
    rows = ledger.read("request_times", {"tenant": tenant, "request": request_id})
    return [
        AttemptTime(AttemptId(row["emitter"], row["seq"], row["request_id"]), row["measured_ns"], row["reshare_ns"])
        for row in rows
    ]


def _unpaid(ledger: Ledger, invoice: Invoice) -> set[QuarterKey]:
    """Rows of a status that changed its payer within the month, which the provider paid."""
    both = {status for status, count in Counter(one.status for one in invoice.statuses).items() if count > 1}
    if not both:
        return set()
    window = {"start_ns": to_ns(invoice.start), "end_ns": to_ns(invoice.end), "tenant": invoice.tenant}
    return {
        QuarterKey(row["tenant"], row["adapter"], row["engine"], row["status"], to_ns(row["quarter"]))
        for row in ledger.read("tenant_cost_window", window)
        if row["status"] in both and row["charged_to"] == "provider"
    }


def _attempts(ledger: Ledger, tenant: str, window: dict[str, int]) -> list[AttemptQuarter]:
    found: defaultdict[AttemptId, list[Part]] = defaultdict(list)
    for row, part in quarter_parts(ledger, window, tenant):
        found[AttemptId(*row["identity"])].append(part)
    return [AttemptQuarter(attempt, quarter) for attempt, parts in found.items() for quarter in merge(parts)]
