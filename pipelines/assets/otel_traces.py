"""otel_traces: what the spool holds, taken into the ledger. Grain: one row per span, one per ledger event."""

from dataclasses import asdict
from typing import Any

import dagster as dg

from billing.store.catalog_history import remember_catalog
from billing.store.ingest import ingest
from pipelines.partitions import Cut, asset
from pipelines.resources import CatalogFile, Desk, LedgerResource, Place


def otel_traces(cut: Cut) -> dg.AssetsDefinition:
    """The asset; every run takes everything new, whichever hour it is for."""

    @asset(cut.hours, name="otel_traces", group_name="ledger", description=__doc__)
    def make(
        ledger: LedgerResource, catalog: CatalogFile, spool: Place, desk: dg.ResourceParam[Desk]
    ) -> dg.MaterializeResult[None]:
        now, declared = desk.clock(), catalog.load()
        spool.at.mkdir(parents=True, exist_ok=True)
        with ledger.open(now) as opened:
            remember_catalog(opened, declared, now)
            report = ingest(
                opened, [spool.at], declared, now, lambda done, total: desk.progress("otel_traces", done, total)
            )
        metadata: dict[str, Any] = asdict(report)
        # Dagster takes lists, and no tuples.
        metadata |= {"reasons": list(report.reasons), "skipped": [asdict(one) for one in report.skipped]}
        return dg.MaterializeResult(metadata=metadata)

    return make
