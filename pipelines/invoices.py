"""The step of a month, made after `tenant_cost`: its documents, as rows and as files. Grain: tenant x billing month."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from billing.close.blocks import told
from billing.close.month import open_before
from billing.documents.press import Press
from billing.exact.periods import to_ns
from billing.store.finance import stands
from billing.store.focus import write_charges
from billing.store.invoice.corrections import late_differences
from billing.store.invoice.drafting import Desk
from billing.store.invoice.invoices import PARTLY, close_month, take_on, write_drafts
from billing.store.invoice.printing import Printed, printed
from catalog.months import month_after, month_before
from pipelines.documents import write_documents
from pipelines.late import derive_late, issue_late, learned
from pipelines.steps import Figures
from pipelines.work import Work


@dataclass(frozen=True, slots=True)
class Acceptances:
    """Gaps that the provider takes on, by id; why, and who says so."""

    gaps: Sequence[str]
    reason: str
    by: str


def invoices(
    work: Work,
    month: str,
    *,
    issue: bool,
    grace_ns: int,
    accept: Acceptances | None = None,
    zero: bool = False,
    leave_open: bool = False,
) -> Figures:
    """Drafts of the month's invoices, or with `issue` numbered ones for everybody whom nothing blocks.

    Months of which facts came late are derived first, so that what they change is on these documents; to issue also issues
    what a month that was closed before lacks. Gaps to `accept` are taken on before. To issue closes the month, which must have
    been over for `grace_ns`, every earlier one closed unless it is to `leave_open`: CloseRefused otherwise; GapMissing or
    AcceptanceInvalid for a gap that is not there or not explained. Figures: how many `documents`, their `files`, `failures` to
    write one, `blocks` as `billing.close.blocks.told` says them, the tenants left `waiting`, and those with no document since
    theirs would come to 0 (`zero`: they get one); `open` and `partly` closed earlier months; and of what came late the months
    `derived`, what was `learned` of earlier invoices, and the documents `added` to earlier months.
    """
    ledger, press = work.ledger, Press(work.settings.fonts)
    derived = derive_late(work, month if issue else month_before(month))
    if accept is not None:
        take_on(ledger, month, accept.gaps, work.catalog, accept.reason, accept.by, work.now)
    # Of this month too, where it was closed before: that is for the next invoice.
    differences = late_differences(Desk.at(ledger, work.catalog, work.now), month_after(month))
    how = {"zero": zero, "leave_open": leave_open}
    made, waiting, nothing = _issued(work, month, grace_ns, press, how) if issue else _drafted(work, month, press)
    added = issue_late(work, month, grace_ns, press, zero=zero) if issue else []

    def progress(done: int) -> None:
        work.progress("invoices", done, len(made.papers))

    written = write_documents(work.settings.out, month, made.papers, progress)
    write_charges(ledger, month, work.catalog, work.now)
    known = stands(ledger, month, to_ns(work.now))
    return {
        "documents": len(made.papers),
        "files": [str(path) for path in written.paths],
        "failures": [*written.failures, *(one for late in added for one in late["failures"])],
        "blocks": [told(block) for block in made.blocks],
        "waiting": sorted(waiting),
        "zero": nothing,
        "open": sorted({*open_before(month, known), *(one for one, status in known.items() if not status)}),
        "partly": sorted(one for one, status in known.items() if status == PARTLY),
        "derived": derived,
        "learned": learned(differences, made.papers),
        "added": added,
    }


def _issued(
    work: Work, month: str, grace_ns: int, press: Press, how: Mapping[str, bool]
) -> tuple[Printed, set[str], list[str]]:
    closed = close_month(work.ledger, month, work.catalog, work.now, grace_ns=grace_ns, press=press, **how)
    return printed(work.ledger, closed, press), set(closed.blocked), list(closed.zero)


def _drafted(work: Work, month: str, press: Press) -> tuple[Printed, set[str], list[str]]:
    made = write_drafts(work.ledger, month, work.catalog, work.now, press)
    return made, {tenant for block in made.blocks for tenant in block.tenants}, []
