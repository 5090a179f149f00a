"""invoices: a month's documents, as rows and as files. Grain: tenant x billing month."""

import dagster as dg

from billing.close import GRACE_NS
from billing.facts import HOUR_NS
from billing.store.focus import write_charges
from billing.store.invoices import issue_month, write_drafts
from pipelines.documents import write_documents
from pipelines.partitions import Cut, asset, month
from pipelines.resources import CatalogFile, Desk, LedgerResource, Place


class InvoicesConfig(dg.Config):
    """Harmless by default: drafts. `issue` closes the month, which needs it and its grace to be over and everything green."""

    issue: bool = False
    grace_hours: int = GRACE_NS // HOUR_NS
    """How long late records are awaited after the month (UTC)."""


def invoices(cut: Cut) -> dg.AssetsDefinition:
    """The asset."""

    @asset(cut.months, name="invoices", group_name="ledger", deps=["tenant_cost"], description=__doc__)
    def make(
        context: dg.AssetExecutionContext,
        config: InvoicesConfig,
        ledger: LedgerResource,
        catalog: CatalogFile,
        documents: Place,
        desk: dg.ResourceParam[Desk],
    ) -> dg.MaterializeResult[None]:
        now, declared, text = desk.clock(), catalog.load(), month(context)
        with ledger.open(now) as opened:
            if config.issue:
                made = issue_month(opened, text, declared, now, grace_ns=config.grace_hours * HOUR_NS)
            else:
                made = write_drafts(opened, text, declared, now)
            write_charges(opened, text, declared, now)
        paths = write_documents(documents.at, text, made, lambda done: desk.progress("invoices", done, len(made)))
        return dg.MaterializeResult(metadata={"documents": len(made), "files": [str(path) for path in paths]})

    return make
