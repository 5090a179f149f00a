"""What must hold of the data: nothing is missing, nothing is refused, every nanosecond and every cent has an owner."""

from datetime import datetime

import dagster as dg

from billing.periods import to_datetime
from billing.store.counters import unexplained
from billing.store.finance import reconciliation, waiting
from billing.store.gaps import stream_gaps
from pipelines.partitions import Cut, Window, window
from pipelines.resources import Desk, LedgerResource


def checks(cut: Cut) -> list[dg.AssetChecksDefinition]:
    """Every check of the ledger, in the order of the assets that they judge."""

    @dg.asset_check(
        asset="usage",
        name="quarantine_is_empty",
        description="Nothing waits in quarantine.",
    )
    def quarantine_is_empty(
        context: dg.AssetCheckExecutionContext, ledger: LedgerResource, desk: dg.ResourceParam[Desk]
    ) -> dg.AssetCheckResult:
        with ledger.open(desk.clock()) as opened:
            found = waiting(opened, *window(context))
        return _result([f"{count} x {reason}" for reason, count in found], dg.AssetCheckSeverity.WARN)

    @dg.asset_check(
        asset="usage",
        name="usage_is_complete",
        description="Sequence numbers have no gaps; records agree with the meter.",
    )
    def usage_is_complete(
        context: dg.AssetCheckExecutionContext, ledger: LedgerResource, desk: dg.ResourceParam[Desk]
    ) -> dg.AssetCheckResult:
        stretch = window(context)
        with ledger.open(desk.clock()) as opened:
            gaps = stream_gaps(opened, *stretch)
            found = reconciliation(opened, *_instants(stretch))
        faults = [f"{missing} missing of {stream}" for stream, missing in gaps.items()]
        if found.uneven_attempts:
            faults.append(
                f"{found.uneven_attempts} attempts differ from the meter, by {found.record_difference_ns} ns together"
            )
        return _result(faults, dg.AssetCheckSeverity.ERROR)

    @dg.asset_check(
        asset="tenant_cost",
        name="cost_is_conserved",
        blocking=cut.hours is not None,
        description="Owners sum to rented time x GPUs, in ns and in money.",
    )
    def cost_is_conserved(
        context: dg.AssetCheckExecutionContext, ledger: LedgerResource, desk: dg.ResourceParam[Desk]
    ) -> dg.AssetCheckResult:
        with ledger.open(desk.clock()) as opened:
            found = reconciliation(opened, *_instants(window(context)))
        faults = [f"{found.missing_ns} GPU-ns of rented time have no owner"] if found.missing_ns else []
        if found.missing_cost:
            faults.append(f"{found.missing_cost} {found.currency} of tenants' time are not in tenant_cost")
        return _result(faults, dg.AssetCheckSeverity.ERROR)

    @dg.asset_check(
        asset="usage",
        name="counters_are_explained",
        description="Each gap between the engine's own counters, the meter and the usage records has a named cause.",
    )
    def counters_are_explained(
        context: dg.AssetCheckExecutionContext, ledger: LedgerResource, desk: dg.ResourceParam[Desk]
    ) -> dg.AssetCheckResult:
        with ledger.open(desk.clock()) as opened:
            faults = unexplained(opened, *window(context))
        return _result(faults, dg.AssetCheckSeverity.ERROR)

    return [quarantine_is_empty, usage_is_complete, counters_are_explained, cost_is_conserved]


def _instants(stretch: Window) -> tuple[datetime, datetime]:
    return to_datetime(stretch.start_ns), to_datetime(stretch.end_ns)


def _result(faults: list[str], severity: dg.AssetCheckSeverity) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        passed=not faults,
        severity=severity,
        description="; ".join(faults) or "as it must be",
        metadata={"faults": len(faults)},
    )
