"""What came late: months derived again, what that changes on earlier invoices, and documents of months closed without a tenant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from billing.documents.press import Paper, Press
from billing.invoice.corrections import Difference
from billing.invoice.invoice import Invoice
from billing.store.catalog_history import known_catalog
from billing.store.cost.late import late_months
from billing.store.finance import month_window
from billing.store.focus import write_charges
from billing.store.intake.usage import book_spans
from billing.store.invoice.invoices import close_month, issued, late_documents
from billing.store.invoice.printing import printed
from catalog.months import month_before
from pipelines.documents import write_documents
from pipelines.steps import DERIVED, Figures
from pipelines.work import Window, Work


def derive_late(work: Work, last: str) -> list[Figures]:
    """Derive every month up to `last` again of which facts came after it was derived; what each got, the newest month first.

    Spans that a collector wrote into the database itself came by no `ingest`: their records are booked for the month before
    `last`. To derive a month books records of the hour before it: the months are looked for again after each.
    """
    held = known_catalog(work.ledger, work.catalog, work.now).catalog
    book_spans(work.ledger, *month_window(month_before(last), held), work.catalog, work.now)
    found, done = list[Figures](), set[str]()
    while late := [one for one in late_months(work.ledger, last, held) if one.month not in done]:
        month, hours, learned_at = late[0]
        done.add(month)
        window = Window(*month_window(month, held))
        made = {step.name: step.make(work, window) for step in DERIVED}
        work.progress(f"late facts of {month}", len(done), len(done) + len(late) - 1)
        costs = made["tenant_cost"]
        faults = [*made["engine_time"]["faults"], *costs["faults"]]
        told = {"month": month, "hours": hours, "learned_at": learned_at.isoformat(), "changed": costs["changed"]}
        found.append({**told, "faults": faults})
    return found


def issue_late(work: Work, month: str, grace_ns: int, press: Press, *, zero: bool) -> list[Figures]:
    """Issue the documents of earlier months that were closed before a tenant was known to have used something: by month, the
    `documents` that are new by number, their `files`, `failures` to write one, and who is left `waiting`."""
    found = []
    for late in late_documents(work.ledger, month):
        before = {invoice.number for invoice in issued(work.ledger, late)}
        closed = close_month(work.ledger, late, work.catalog, work.now, grace_ns=grace_ns, press=press, zero=zero)
        papers = printed(work.ledger, closed, press).papers
        new = {invoice.number for invoice in closed.invoices} - before
        written = write_documents(work.settings.out, late, papers, lambda _done: None)
        write_charges(work.ledger, late, work.catalog, work.now)
        files = [str(path) for path in written.paths if any(path.stem.endswith(f"-{number}") for number in new)]
        told = {"month": late, "documents": sorted(filter(None, new)), "files": files, "failures": written.failures}
        if new or closed.blocked:
            found.append({**told, "waiting": list(closed.blocked)})
    return found


def learned(differences: Iterable[Difference], papers: Sequence[Paper]) -> list[Figures]:
    """What the ledger learned of earlier invoices: `net` more or (below 0) less, and `on` which of these documents it is; None
    while it is on none, and for less, which a credit note takes back."""
    invoices = [paper.document for paper in papers if isinstance(paper.document, Invoice)]
    lines = [(line.corrects, invoice) for invoice in invoices for line in invoice.lines]
    return [
        {
            "tenant": one.original.tenant,
            "invoice": one.original.number,
            "month": one.original.month,
            "outcome": one.outcome,
            "net": f"{one.net.value:f}",
            "currency": one.net.currency,
            "on": next((its.number or "draft" for on, its in lines if on and on.number == one.original.number), None),
        }
        for one in differences
    ]
