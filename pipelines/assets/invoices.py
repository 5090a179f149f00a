"""invoices: a month's documents, as rows and as files. Grain: tenant x billing month."""

import dagster as dg
from pydantic import Field

from billing.blocks import told
from billing.close import GRACE_NS
from billing.documents.press import Press
from billing.facts import HOUR_NS
from billing.store.focus import write_charges
from billing.store.invoices import close_month, take_on, write_drafts
from billing.store.printing import printed
from pipelines.documents import write_documents
from pipelines.partitions import Cut, asset, month
from pipelines.resources import CatalogFile, Desk, FontFolders, LedgerResource, Place


class InvoicesConfig(dg.Config):
    """Harmless by default: drafts. `issue` closes the month, which needs it and its grace to be over and everything green."""

    issue: bool = False
    grace_hours: int = GRACE_NS // HOUR_NS
    """How long late records are awaited after the month (UTC)."""
    accept_gaps: list[str] = Field(default_factory=list)
    """Ids of gaps that the provider takes on before the month is closed, with `reason` and `accepted_by`."""
    reason: str = ""
    accepted_by: str = ""


def invoices(cut: Cut) -> dg.AssetsDefinition:
    """The asset."""

    @asset(cut.months, name="invoices", group_name="ledger", deps=["tenant_cost"], description=__doc__)
    def make(
        context: dg.AssetExecutionContext,
        config: InvoicesConfig,
        ledger: LedgerResource,
        catalog: CatalogFile,
        documents: Place,
        fonts: FontFolders,
        desk: dg.ResourceParam[Desk],
    ) -> dg.MaterializeResult[None]:
        now, declared, text, press = desk.clock(), catalog.load(), month(context), Press(fonts.at)
        with ledger.open(now) as opened:
            if config.accept_gaps:
                take_on(opened, text, config.accept_gaps, declared, config.reason, config.accepted_by, now)
            if config.issue:
                grace_ns = config.grace_hours * HOUR_NS
                closed = close_month(opened, text, declared, now, grace_ns=grace_ns, press=press)
                made, waiting = printed(opened, closed, press), set(closed.blocked)
            else:
                made = write_drafts(opened, text, declared, now, press)
                waiting = {tenant for block in made.blocks for tenant in block.tenants}
            papers, blocks = made.papers, made.blocks
            written = write_documents(
                documents.at, text, papers, lambda done: desk.progress("invoices", done, len(papers))
            )
            write_charges(opened, text, declared, now)
        return dg.MaterializeResult(
            metadata={
                "documents": len(papers),
                "files": [str(path) for path in written.paths],
                "failures": written.failures,
                "blocks": dg.MetadataValue.json([told(block) for block in blocks]),
                "waiting": sorted(waiting),
            }
        )

    return make
