"""As issued beside as now known: what later facts call for on a credit note, or as a correction on the next invoice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from billing.invoice.corrections import Difference, correction_lines, difference
from billing.invoice.invoice import Invoice
from billing.invoice.lines import Line
from billing.store.clickhouse import Ledger
from billing.store.invoice.drafting import Desk
from billing.store.invoice.issuing import issued_credit_notes, issued_invoices


def as_known(desk: Desk, original: Invoice) -> Difference:
    """An issued invoice beside its month as the ledger knows it now.

    Facts and prices are today's, and so are the tenant's terms of that month: a term that changed since does not reach back,
    unless it was restated. Raises what drafting raises, LookupError when the tenant is not known.
    """
    return _difference(desk, original, [one.invoice() for one in issued_invoices(desk.ledger, tenant=original.tenant)])


def outdated_invoices(ledger: Ledger, month: str) -> dict[str, set[str]]:
    """By tenant: numbers of invoices of earlier months of which the ledger learned something after they were made."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for row in ledger.read("invoices_outdated", {"month": month}):
        found[row["tenant"]].add(row["number"])
    return dict(found)


def corrections_due(desk: Desk, tenant: str, numbers: Collection[str]) -> list[Line]:
    """Lines that raise these invoices of a tenant, for its next one."""
    if not numbers:
        return []
    invoices = [one.invoice() for one in issued_invoices(desk.ledger, tenant=tenant)]
    return [
        line
        for original in invoices
        if original.number in numbers
        for line in correction_lines(_difference(desk, original, invoices))
    ]


def _difference(desk: Desk, original: Invoice, invoices: Iterable[Invoice]) -> Difference:
    tenant = desk.catalog.tenant(original.tenant)
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
