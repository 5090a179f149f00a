"""tenant_cost: whose engine time it was, priced. Grain: tenant x quarter hour x adapter x engine x status."""

import dagster as dg

from billing.store.tenant_cost import write_tenant_cost
from pipelines.partitions import Cut, asset, window
from pipelines.resources import CatalogFile, Desk, LedgerResource


def tenant_cost(cut: Cut) -> dg.AssetsDefinition:
    """The asset; also writes what the engine-hours cost by owner."""

    @asset(cut.hours, name="tenant_cost", group_name="ledger", deps=["usage", "engine_time"], description=__doc__)
    def make(
        context: dg.AssetExecutionContext, ledger: LedgerResource, catalog: CatalogFile, desk: dg.ResourceParam[Desk]
    ) -> dg.MaterializeResult[None]:
        now = desk.clock()
        with ledger.open(now) as opened:
            changed = write_tenant_cost(opened, *window(context), catalog.load(), now)
        desk.progress("tenant_cost", 1, 1)
        return dg.MaterializeResult(metadata={"changed": changed})

    return make
