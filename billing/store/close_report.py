"""What the close report asks the ledger, in one go: an embedded ledger is held only while this runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from billing.close.blocks import Block
from billing.close.report import Change, CloseReport, Gone, Late, bill, changes, late_corrections
from billing.cost.facts import NotConserved
from billing.errors import BillingError
from billing.exact.money import trimmed
from billing.exact.periods import BillingMonth, to_ns
from billing.invoice.invoice import Invoice
from billing.store.clickhouse import Ledger
from billing.store.finance import demo_table, month_state, reconciliation
from billing.store.invoice.corrections import as_known, outdated_invoices
from billing.store.invoice.drafting import Desk
from billing.store.invoice.invoices import drafts, issued
from billing.store.invoice.issuing import accepted_gaps, issued_document
from catalog.model import Catalog, Tenant
from telemetry.usage import UNAUTHENTICATED, UNKNOWN_TENANT

OPEN = "open"


def close_report(ledger: Ledger, month: str, catalog: Catalog, now: datetime) -> CloseReport:
    """The month as it stands: issued, and drafted for whom it is not; of a closed month what was issued, and what would block it now."""
    periods = ledger.read("periods", {"month": month})
    own = next((row for row in periods if row["billing_month"] == month), None)
    last = next((row for row in reversed(periods) if row["billing_month"] < month), None)
    closed = own is not None and own["status"] == "closed"
    until, since_ns = (own["closed_at"] if own and closed else now), to_ns(last["closed_at"]) if last else 0
    blocks = list(month_state(ledger, month, catalog, now).blocks)
    documents = _documents(ledger, month, catalog, now, blocks, closed=closed)
    desk = Desk.at(ledger, catalog, now)
    period = BillingMonth(month)
    found = reconciliation(ledger, period.start, period.end)
    return CloseReport(
        month=month,
        as_of=now,
        status=own["status"] if own else OPEN,
        closed_at=own["closed_at"] if own else None,
        last_month=last["billing_month"] if last else None,
        last_close=last["closed_at"] if last else None,
        currency=catalog.prices.currency,
        rented_ns=found.rented_ns,
        missing_ns=found.missing_ns,
        missing_cost=trimmed(found.missing_cost),
        unmeasured_attempts=found.unmeasured_attempts,
        bills=tuple(map(bill, documents)),
        changes=tuple(_changes(ledger, catalog, since_ns, to_ns(until) if closed else None)) if last else (),
        findings=tuple(blocks),
        late=tuple(_late(desk, month, documents, since_ns, to_ns(until))),
        gone=tuple(_gone(ledger, month, catalog, documents)),
        accepted=tuple(accepted_gaps(ledger, month)),
    )


def _documents(
    ledger: Ledger, month: str, catalog: Catalog, now: datetime, blocks: list[Block], *, closed: bool
) -> list[Invoice]:
    """Issued invoices and the drafts of the others, by tenant; why somebody has neither is added to `blocks`."""
    documents = issued(ledger, month)
    if not closed:
        done, fresh = {one.tenant for one in documents}, drafts(ledger, month, catalog, now)
        documents += [draft for draft in fresh.invoices if draft.tenant not in done]
        blocks += [block for block in fresh.blocks if not done.issuperset(block.tenants)]
    return sorted(documents, key=lambda document: document.tenant)


def _changes(ledger: Ledger, catalog: Catalog, since_ns: int, until_ns: int | None) -> Iterator[Change]:
    """Tenants and prices as known at the last close beside those known at this one, or (None) in the catalog."""
    before, prices = _known(ledger, since_ns)
    if until_ns is None:
        after = {tenant.id: _plain(tenant) for tenant in catalog.tenants}
        current = {
            f"{book.version} {price.gpu_type} from {price.start:%Y-%m-%dT%H:%M:%SZ}": _price(price.per_hour)
            for book in catalog.price_books
            for price in book.gpu_hours
        }
    else:
        after, current = _known(ledger, until_ns)
    yield from changes("tenant", before, after)
    yield from changes("price of", *({name: {"per hour": one} for name, one in of.items()} for of in (prices, current)))


def _known(ledger: Ledger, at_ns: int) -> tuple[dict[str, Any], dict[str, str]]:
    tenants = {
        row["tenant"]: row["document"] for row in ledger.read("tenants_known") if to_ns(row["known_at"]) <= at_ns
    }
    prices = ledger.read("prices_known", {"known_ns": at_ns})
    return (
        {name: _plain(Tenant.model_validate_json(document)) for name, document in tenants.items()},
        {row["entry"]: _price(row["newest"]) for row in prices},
    )


def _plain(tenant: Tenant) -> Mapping[str, Any]:
    """Its terms; keys are no term, and the ledger does not have them."""
    found: dict[str, Any] = json.loads(tenant.model_dump_json(exclude={"key_hashes"}))
    return found


def _price(per_hour: Decimal) -> str:
    return f"{trimmed(per_hour):f}"


def _late(desk: Desk, month: str, documents: list[Invoice], since_ns: int, until_ns: int) -> Iterator[Late]:
    corrections = list(late_corrections(documents))
    yield from corrections
    raised = {one.invoice for one in corrections}
    for row in desk.ledger.read("credits_since", {"since_ns": since_ns, "until_ns": until_ns}):
        own = (row["tenant"], row["invoice"], row["billing_month"], row["number"], row["currency"], trimmed(row["net"]))
        yield Late("credit_note", *own)
    for numbers in outdated_invoices(desk.ledger, month).values():
        for number in sorted(numbers - raised):
            invoice = issued_document(desk.ledger, number).invoice()
            try:
                due = as_known(desk, invoice).net.value
            except (BillingError, NotConserved, LookupError):
                due = None
            if due is None or due:
                yield Late("due", invoice.tenant, number, invoice.month, None, invoice.currency, due)


def _gone(ledger: Ledger, month: str, catalog: Catalog, documents: list[Invoice]) -> Iterator[Gone]:
    known = {document.tenant: document.number or document.state for document in documents}
    for row in demo_table(ledger, month):
        name = row["tenant"]
        if catalog.tenant(name) is None and name not in (UNAUTHENTICATED, UNKNOWN_TENANT):
            yield Gone(name, row["requests"], trimmed(row["cost"]), known.get(name))
