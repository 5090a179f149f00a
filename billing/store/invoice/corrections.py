"""As issued beside as now known: what later facts call for on a credit note, or as a correction on the next invoice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from billing.cost.facts import NotConserved
from billing.errors import BillingError
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
    return [line for found in differences_due(desk, tenant, numbers) for line in correction_lines(found)]


def differences_due(desk: Desk, tenant: str, numbers: Collection[str]) -> list[Difference]:
    """These invoices of a tenant beside what is known now, in the order of issue."""
    if not numbers:
        return []
    invoices = [one.invoice() for one in issued_invoices(desk.ledger, tenant=tenant)]
    return [_difference(desk, original, invoices) for original in invoices if original.number in numbers]


def late_differences(desk: Desk, month: str) -> list[Difference]:
    """What was learned of invoices of months before `month` and is on no document yet. Who cannot be drafted is left out."""
    found = []
    for tenant, numbers in sorted(outdated_invoices(desk.ledger, month).items()):
        try:
            found += [one for one in differences_due(desk, tenant, numbers) if one.outcome != "none"]
        except (BillingError, NotConserved, LookupError):
            continue  # its draft says why
    return found


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
