"""Rules about the ledger and its money, from the last snapshot that it published to the gateways. No I/O."""

from __future__ import annotations

from typing import Final

from alerts.links import MONEY, PIPELINE
from alerts.promises import Promises
from alerts.rows import AlertRow, GroupRows
from telemetry import names
from telemetry.names import Metric


def _shown(metric: Metric) -> str:
    """Above 0 in the snapshot; every gateway shows the same one, so `max` makes one alert of it."""
    return f"max({metric.name}) > 0"


def _snapshot_stale(promises: Promises) -> str:
    # Without any snapshot there is no age: then the gateways' own is judged.
    never = f"(max(time() - {names.PROCESS_START.name}) unless on () {names.SNAPSHOT_AGE.name})"
    oldest = promises.ledger.snapshot_age
    return f"min({names.SNAPSHOT_AGE.name}) > {oldest}\nor on () {never} > {oldest}"


def _margin_negative(promises: Promises) -> str:
    cost, revenue = (f"max by (tenant) ({metric.name})" for metric in (names.TENANT_COST, names.TENANT_REVENUE))
    return f"{cost} - {revenue} > 0\nand {cost} >= {promises.ledger.margin_min_cost}"


MONEY_RULES: Final = GroupRows(
    "loraledger-money",
    (
        AlertRow(
            name="LoraSnapshotStale",
            promise="ledger",
            severity="warning",
            expr=_snapshot_stale,
            for_=lambda p: p.ledger.snapshot_for,
            summary="The ledger has published no snapshot for {{ $value | humanizeDuration }}",
            description="Cost gauges and money alerts show that moment, not now; the pipeline has stopped publishing.",
            board=PIPELINE,
        ),
        AlertRow(
            name="LoraQuarantineNotEmpty",
            promise="quarantine",
            severity="warning",
            expr=_shown(names.QUARANTINE),
            for_=lambda p: p.ledger.quarantine_for,
            summary="{{ $value | humanize }} usage records are in quarantine",
            description="The month cannot be closed while records wait there.",
            board=PIPELINE,
        ),
        AlertRow(
            name="LoraRecordGaps",
            promise="complete",
            severity="warning",
            expr=_shown(names.RECORD_GAPS),
            for_=lambda p: p.ledger.gaps_for,
            summary="{{ $value | humanize }} usage records never reached the ledger",
            description="Sequence numbers of a gateway are missing: a spool file was not ingested, or records were lost.",
            board=PIPELINE,
        ),
        AlertRow(
            name="LoraCloseOverdue",
            promise="close",
            severity="warning",
            expr=_shown(names.CLOSE_OVERDUE),
            for_=lambda p: p.ledger.close_for,
            summary="A month should have been closed {{ $value | humanizeDuration }} ago",
            description="Invoices of that month are not issued.",
            board=MONEY,
        ),
        AlertRow(
            name="LoraPriceMissing",
            promise="price",
            severity="warning",
            expr=_shown(names.PRICE_MISSING),
            for_=lambda p: p.ledger.price_for,
            summary="{{ $value | humanizeDuration }} of engine time have no price",
            description="The price book does not cover a GPU type or a date; that time is not billed.",
            board=MONEY,
        ),
        AlertRow(
            name="LoraMarginNegative",
            promise="margin",
            severity="warning",
            expr=_margin_negative,
            for_=lambda p: p.ledger.margin_for,
            summary="Tenant {{ $labels.tenant }} costs more than it pays",
            description="Month to date, attributed cost exceeds revenue by {{ $value | humanize }} (in the price book's currency).",
            board=MONEY,
            variable="tenant",
        ),
    ),
)
