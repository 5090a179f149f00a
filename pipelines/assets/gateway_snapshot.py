"""gateway_snapshot: the ledger's figures for the gateways: costs, what is wrong, and how much of each budget is used."""

import dagster as dg

from billing.store.finance import publish_snapshot
from pipelines.partitions import Cut, asset
from pipelines.resources import CatalogFile, Desk, LedgerResource, Place


def gateway_snapshot(cut: Cut) -> dg.AssetsDefinition:
    """The asset: one file, always of the months that run now, whichever hours a run was about."""

    @asset(cut.hours, name="gateway_snapshot", group_name="ledger", deps=["tenant_cost"], description=__doc__)
    def make(
        ledger: LedgerResource, catalog: CatalogFile, snapshot: Place, desk: dg.ResourceParam[Desk]
    ) -> dg.MaterializeResult[None]:
        now = desk.clock()
        with ledger.open(now) as opened:
            publish_snapshot(opened, catalog.load(), snapshot.at, now)
        return dg.MaterializeResult(metadata={"file": str(snapshot.at)})

    return make
