"""Drafts and issued invoices: drafts are replaced each time, issued ones enter the chain once and never change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from billing.close.acceptance import Acceptance
from billing.close.blocks import Block, Kind, blocked
from billing.close.month import GRACE_NS, Closed, charges_something, check_tiling, numbered, refusals
from billing.cost.facts import NotConserved
from billing.documents.press import Paper, Press
from billing.documents.text_faults import declared
from billing.errors import BillingError, DocumentFailed
from billing.exact.periods import BillingMonth, to_ns
from billing.invoice.invoice import Invoice
from billing.store import versions
from billing.store.catalog_history import known_catalog, refuse_edited, remember_catalog
from billing.store.clickhouse import Ledger
from billing.store.close.accepted import accept_gaps, choose
from billing.store.errors import CloseRefused
from billing.store.finance import NOBODY, month_state, month_window
from billing.store.intake.quarantine import RELEASED, resolve
from billing.store.intake.usage import book_lost
from billing.store.invoice.corrections import corrections_due, outdated_invoices
from billing.store.invoice.drafting import Desk
from billing.store.invoice.issuing import BATCH, accepted_gaps, free_number, issue, issued_invoices
from billing.store.invoice.printing import Printed, keep_files
from billing.store.invoice.settling import DRAFT, invoice_row, line_rows, settle
from billing.store.invoice.verify import check_books
from catalog import tariff
from catalog.load import version
from catalog.model import Catalog, CostPlus

PARTLY: Final = "partly closed"
"""Status of a month that is issued for some and blocked for others."""


@dataclass(frozen=True, slots=True)
class Drafts:
    """A draft for each tenant that can have one, in the order of ids, and why others have none."""

    invoices: list[Invoice]
    blocks: list[Block]


def drafts(ledger: Ledger, month: str, catalog: Catalog, now: datetime) -> Drafts:
    """A draft for each tenant that used something in the month, owes a minimum, a fee or idle time, or has a correction to come.

    A tenant that the catalog no longer has is billed for what it used, by the terms that held. Nothing is written. What one
    tenant's month lacks (a price book, a payer, an exchange rate, facts that fit), and what its entry says of the past, blocks
    that tenant alone.
    """
    desk = Desk.at(ledger, catalog, now)
    idle, outdated = desk.idle_shares(month), outdated_invoices(ledger, month)
    active = {row["tenant"] for row in ledger.read("active_tenants", {"month": month})}
    earlier, later = (
        {invoice.tenant: invoice for invoice in issued(ledger, other)}
        for other in (BillingMonth(month).previous().text, BillingMonth(month).next().text)
    )
    made = Drafts([], [])
    for tenant in sorted(desk.catalog.tenants, key=lambda t: t.id):
        try:
            period = BillingMonth.of(tenant, month)
            refuse_edited(desk.known, tenant.id, period.end)
            corrections = corrections_due(desk, tenant.id, outdated.get(tenant.id, ()))
            agreed = tariff.terms_at(tenant, period.end_ns - 1)
            owed = tenant.id not in desk.known.gone and bool(agreed.plan.minimum or agreed.commitment)
            shares, before = idle.get(tenant.id, ()), earlier.get(tenant.id)
            carries = shares and isinstance(agreed.plan, CostPlus)
            if tenant.id in active or owed or corrections or carries:
                draft = desk.draft(tenant, month, shares, before, corrections=corrections)
                check_tiling(draft, before, later.get(tenant.id))
                made.invoices.append(draft)
        except (BillingError, NotConserved, LookupError) as error:
            made.blocks.append(_fault(Kind.DRAFT, tenant.id, month, str(error)))
    return made


def write_drafts(ledger: Ledger, month: str, catalog: Catalog, now: datetime, press: Press | None = None) -> Printed:
    """Replace the month's drafts by what the ledger says now, printed; tenants with an issued invoice have none.

    Once the month is closed, only those have one that closing it again would issue. Who cannot have one is in `blocks`.
    """
    fresh = _open_drafts(ledger, month, catalog, now)
    invoices = fresh.invoices
    if _is_closed(ledger, month):
        invoices = [draft for draft in invoices if charges_something(draft)]
    _replace_drafts(ledger, month, invoices, now)
    papers, faults = _print(invoices, press or Press(), catalog, month)
    return Printed(papers, [*fresh.blocks, *faults])


def issue_month(ledger: Ledger, month: str, catalog: Catalog, now: datetime, **how: Any) -> list[Invoice]:
    """As `close_month`; all of the month's invoices."""
    return list(close_month(ledger, month, catalog, now, **how).invoices)


def close_month(
    ledger: Ledger,
    month: str,
    catalog: Catalog,
    now: datetime,
    *,
    grace_ns: int = GRACE_NS,
    press: Press | None = None,
    zero: bool = False,
    leave_open: bool = False,
) -> Closed:
    """Close the month for everybody whom nothing blocks: an invoice for each tenant with a charge and none yet.

    Every file of a document is made and kept before its number is given, so that nothing numbered cannot be printed. Numbers
    continue the series of the year without gaps, in the order of tenant ids; a tenant whose month comes to 0 gets no document,
    unless `zero` asks for it. Run again, also after a crash or beside another run, it completes what is missing and issues nothing
    twice, and the rest once what blocks them is gone. CloseRefused when the month, or its grace, is not over, or an earlier one is
    open, unless to `leave_open`; BooksBroken, before anything is written, when what was issued is not as it was; SeriesInvalid.
    """
    check_books(ledger)
    settle(ledger, issued_invoices(ledger, month))
    state = month_state(ledger, month, catalog, now)
    if reasons := refusals(state, to_ns(now), grace_ns, leave_open=leave_open):
        if _is_closed(ledger, month):
            return Closed(month, issued(ledger, month))
        raise CloseRefused(month, reasons)
    remember_catalog(ledger, catalog, now)
    series, today, printer = catalog.seller.number_series, now.date(), press or Press()
    held = blocked(state.blocks)
    left: dict[str, Block] = {}
    nothing: set[str] = set()

    def make() -> list[Invoice]:
        fresh = _open_drafts(ledger, month, catalog, now)
        left.update({block.tenants[0]: block for block in fresh.blocks})
        ready = [draft for draft in fresh.invoices if draft.tenant not in held and draft.tenant not in left]
        free = [draft for draft in ready if charges_something(draft, zero=zero)]
        due = {draft.tenant for draft in free}
        nothing.update(d.tenant for d in ready if d.tenant not in due and charges_something(d, zero=True))
        first = free_number(ledger, Invoice, series, today.year) if free else 0
        while True:
            documents = numbered(free, series, first, today)[:BATCH]
            papers, faults = _print(documents, printer, catalog, month)
            if not faults:
                break
            left.update({block.tenants[0]: block for block in faults})
            free = [draft for draft in free if draft.tenant not in left]
        keep_files(ledger, papers, now)
        return documents

    while len(issue(ledger, make, now)) == BATCH:
        pass
    documents = issued_invoices(ledger, month)
    settle(ledger, documents)
    closed = Closed(month, [one.invoice() for one in documents], [*state.blocks, *left.values()], sorted(nothing))
    _remember_close(ledger, closed, catalog, now)
    waiting = closed.blocked
    unissued = _open_drafts(ledger, month, catalog, now).invoices if waiting else []
    _replace_drafts(ledger, month, [draft for draft in unissued if draft.tenant in waiting], now)
    return closed


def take_on(
    ledger: Ledger, month: str, gaps: Sequence[str], catalog: Catalog, reason: str, by: str, now: datetime
) -> list[Acceptance]:
    """Let the provider carry open gaps of the month, named by id or its first digits: booked into the chain and the postings.

    What waits in quarantine is released with it, and an attempt whose record that was is lost. Those that were accepted before stay as they are. GapMissing or
    AcceptanceInvalid otherwise, and then none is accepted. BooksBroken as `close_month`.
    """
    check_books(ledger)
    accepted = accepted_gaps(ledger)
    chosen = choose(month_state(ledger, month, catalog, now).blocks, gaps, accepted, month)
    made = accept_gaps(ledger, chosen, month, catalog.prices.currency, reason, by, now)
    released = {
        entry: f"{RELEASED}{one.reason} ({one.number})"
        for one in (*accepted, *made)
        if one.kind is Kind.QUARANTINE
        for entry in one.key
    }
    if resolve(ledger, released, now):
        book_lost(ledger, [], catalog, now)
    return made


def _print(documents: Sequence[Invoice], press: Press, catalog: Catalog, month: str) -> tuple[list[Paper], list[Block]]:
    """Every document as files, and by tenant why one cannot be made."""
    papers, faults = [], []
    for document in documents:
        try:
            papers.append(Paper(document, press.files(document)))
        except DocumentFailed as error:
            said = "; ".join(declared(catalog, document.tenant, error.faults)) or str(error)
            faults.append(_fault(Kind.DOCUMENT, document.tenant, month, said))
    return papers, faults


def _fault(kind: Kind, tenant: str, month: str, said: str) -> Block:
    return Block(kind, (tenant, month), said, (tenant,), advice="mend the catalog and close the month again")


def issued(ledger: Ledger, month: str) -> list[Invoice]:
    """The issued invoices of a month, as they were sent; InvoiceInvalid when one was tampered with."""
    return [one.invoice() for one in issued_invoices(ledger, month)]


def late_documents(ledger: Ledger, month: str) -> list[str]:
    """Months before `month`, the oldest first, that were closed before costs of a tenant without a document were known."""
    return [row["billing_month"] for row in ledger.read("months_without_documents", {"month": month, "nobody": NOBODY})]


def _open_drafts(ledger: Ledger, month: str, catalog: Catalog, now: datetime) -> Drafts:
    done = {one.tenant for one in issued_invoices(ledger, month)}
    found = drafts(ledger, month, catalog, now)
    return Drafts(
        [draft for draft in found.invoices if draft.tenant not in done],
        [block for block in found.blocks if block.tenants[0] not in done],
    )


def _replace_drafts(ledger: Ledger, month: str, fresh: Sequence[Invoice], now: datetime) -> None:
    key = ("tenant", "billing_month", "kind", "number")
    lines = [line for draft in fresh for line in line_rows(draft)]
    rows = [invoice_row(draft, None) for draft in fresh]
    for name, new, own in (("invoice_line", lines, (*key, "line")), ("invoice", rows, key)):
        old = ledger.read(f"{name}_rows", {"numbers": [DRAFT], "month": month})
        versions.apply(ledger, f"{name}_versions", versions.change(old, new, own), to_ns(now))


def _is_closed(ledger: Ledger, month: str) -> bool:
    return any(row["status"] == "closed" for row in ledger.read("period_known", {"month": month}))


def _remember_close(ledger: Ledger, closed: Closed, catalog: Catalog, now: datetime) -> None:
    """What is closed stays closed; a month that waits for somebody is `partly closed`. What blocks is kept beside it."""
    month, documents = closed.month, len(closed.invoices)
    rows = [_block_row(month, block, closed) for block in closed.blocks]
    changed = versions.change(ledger.read("billing_blocks_month", {"month": month}), rows, ("billing_month", "id"))
    versions.apply(ledger, "billing_blocks", changed, to_ns(now))
    before = [(row["status"], row["documents"]) for row in ledger.read("period_known", {"month": month})]
    status = PARTLY if closed.blocked and ("closed" not in {status for status, _ in before}) else "closed"
    if before == [(status, documents)]:
        return
    start_ns, end_ns = month_window(month, known_catalog(ledger, catalog, now).catalog)
    cost = ledger.read("attributed_cost_window", {"start_ns": start_ns, "end_ns": end_ns})[0]["cost_sum"]
    row = {"billing_month": month, "version": to_ns(now), "status": status, "closed_at": now, "documents": documents}
    row |= {"catalog_version": version(catalog), "cost": cost, "currency": catalog.prices.currency}
    ledger.insert("billing_period_versions", [row])


def _block_row(month: str, block: Block, closed: Closed) -> dict[str, Any]:
    return {
        "billing_month": month,
        "kind": block.kind.value,
        "tenants": list(block.tenants),
        "waiting": [tenant for tenant in block.tenants if tenant in closed.blocked],
        "engine": block.engine or "",
        **{name: getattr(block, name) for name in ("id", "what", "records", "tokens", "engine_ns", "cost", "advice")},
    }
