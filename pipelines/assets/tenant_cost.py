"""tenant_cost: whose engine time it was, priced. Grain: tenant x quarter hour x adapter x engine x status."""

import dagster as dg

from billing.store.derivations import remember_derivation
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
        declared, stretch = catalog.load(), window(context)
        with ledger.open(now) as opened:
            derived = write_tenant_cost(opened, *stretch, declared, now)
            remember_derivation(opened, *stretch, declared, now)
        desk.progress("tenant_cost", 1, 1)
        return dg.MaterializeResult(metadata={"changed": derived.changed, "faults": list(derived.faults)})

    return make
