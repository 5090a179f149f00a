"""As issued beside as now known: what later facts call for on a credit note, or as a correction on the next invoice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from billing.corrections import Difference, correction_lines, difference
from billing.invoice import Invoice
from billing.invoice_lines import Line
from billing.store.drafting import Desk
from billing.store.issuing import issued_credit_notes, issued_invoices


def as_known(desk: Desk, original: Invoice) -> Difference:
    """An issued invoice beside its month as the ledger knows it now.

    Facts and prices are today's, the tenant's plan, currency and time zone are those known when the invoice was made: a
    plan that changed since does not reach back. Raises what drafting raises, LookupError when the tenant is not known.
    """
    return _difference(desk, original, [one.invoice() for one in issued_invoices(desk.ledger, tenant=original.tenant)])


def corrections_due(desk: Desk, month: str) -> dict[str, list[Line]]:
    """By tenant: lines that raise invoices of earlier months, for the invoice of `month`.

    Only months of which the ledger learned something after their invoice was made are looked at.
    """
    due: defaultdict[str, list[Line]] = defaultdict(list)
    outdated = desk.ledger.read("invoices_outdated", {"month": month})
    for tenant in sorted({row["tenant"] for row in outdated}):
        invoices = [one.invoice() for one in issued_invoices(desk.ledger, tenant=tenant)]
        numbers = {row["number"] for row in outdated if row["tenant"] == tenant}
        for original in invoices:
            if original.number in numbers:
                due[tenant] += correction_lines(_difference(desk, original, invoices))
    return dict(due)


def _difference(desk: Desk, original: Invoice, invoices: Iterable[Invoice]) -> Difference:
    tenant = desk.tenant_at(original.tenant, original.cutoff)
    if tenant is None:
        raise LookupError(
            f"could not draft invoice {original.number} again: nothing is known of tenant {original.tenant}"
        )
    idle = desk.idle_shares(original.month).get(original.tenant, ())
    known = desk.draft(tenant, original.month, idle)
    related = [one for one in invoices if one.number != original.number and _corrects(one, original)]
    numbers = {original.number, *(one.number for one in related)}
    notes = [note for note in issued_credit_notes(desk.ledger, original.tenant) if note.invoice in numbers]
    return difference(original, known, related, notes)


def _corrects(one: Invoice, original: Invoice) -> bool:
    return any(line.corrects is not None and line.corrects.number == original.number for line in one.lines)
