"""The step of a month, made after `tenant_cost`: its documents, as rows and as files. Grain: tenant x billing month."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from billing.close.blocks import told
from billing.documents.press import Press
from billing.store.focus import write_charges
from billing.store.invoice.invoices import close_month, take_on, write_drafts
from billing.store.invoice.printing import Printed, printed
from pipelines.documents import write_documents
from pipelines.steps import Figures
from pipelines.work import Work


@dataclass(frozen=True, slots=True)
class Acceptances:
    """Gaps that the provider takes on, by id; why, and who says so."""

    gaps: Sequence[str]
    reason: str
    by: str


def invoices(
    work: Work, month: str, *, issue: bool, grace_ns: int, accept: Acceptances | None = None, zero: bool = False
) -> Figures:
    """Drafts of the month's invoices, or with `issue` numbered ones for everybody whom nothing blocks.

    Gaps to `accept` are taken on first. To issue closes the month, which must have been over for `grace_ns`: CloseRefused
    otherwise; GapMissing or AcceptanceInvalid for a gap that is not there or not explained. Figures: how many `documents`,
    their `files`, `failures` to write one, `blocks` as `billing.close.blocks.told` says them, the tenants left `waiting`, and
    those with no document since theirs would come to 0 (`zero`: they get one).
    """
    ledger, press = work.ledger, Press(work.settings.fonts)
    if accept is not None:
        take_on(ledger, month, accept.gaps, work.catalog, accept.reason, accept.by, work.now)
    made, waiting, nothing = _issued(work, month, grace_ns, press, zero) if issue else _drafted(work, month, press)

    def progress(done: int) -> None:
        work.progress("invoices", done, len(made.papers))

    written = write_documents(work.settings.out, month, made.papers, progress)
    write_charges(ledger, month, work.catalog, work.now)
    return {
        "documents": len(made.papers),
        "files": [str(path) for path in written.paths],
        "failures": written.failures,
        "blocks": [told(block) for block in made.blocks],
        "waiting": sorted(waiting),
        "zero": nothing,
    }


def _issued(work: Work, month: str, grace_ns: int, press: Press, zero: bool) -> tuple[Printed, set[str], list[str]]:
    closed = close_month(work.ledger, month, work.catalog, work.now, grace_ns=grace_ns, press=press, zero=zero)
    return printed(work.ledger, closed, press), set(closed.blocked), list(closed.zero)


def _drafted(work: Work, month: str, press: Press) -> tuple[Printed, set[str], list[str]]:
    made = write_drafts(work.ledger, month, work.catalog, work.now, press)
    return made, {tenant for block in made.blocks for tenant in block.tenants}, []
