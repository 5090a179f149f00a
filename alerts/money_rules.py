"""Rules about the ledger and its money, from the last snapshot that it published to the gateways. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from alerts.links import MONEY, PIPELINE
from alerts.model import Alert
from alerts.promises import Promises
from telemetry import names
from telemetry.names import Metric

_alert = partial(Alert, board=PIPELINE)


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


def money_rules(promises: Promises) -> Iterator[Alert]:
    """The ledger keeps up, the books can be closed, and nobody is served at a loss."""
    ledger = promises.ledger
    yield _alert(
        name="LoraSnapshotStale",
        promise="ledger",
        expr=_snapshot_stale(promises),
        for_=ledger.snapshot_for,
        summary="The ledger has published no snapshot for {{ $value | humanizeDuration }}",
        description="Cost gauges and money alerts show that moment, not now; the pipeline has stopped publishing.",
    )
    yield _alert(
        name="LoraQuarantineNotEmpty",
        promise="quarantine",
        expr=_shown(names.QUARANTINE),
        for_=ledger.quarantine_for,
        summary="{{ $value | humanize }} usage records are in quarantine",
        description="The month cannot be closed while records wait there.",
    )
    yield _alert(
        name="LoraRecordGaps",
        promise="complete",
        expr=_shown(names.RECORD_GAPS),
        for_=ledger.gaps_for,
        summary="{{ $value | humanize }} usage records never reached the ledger",
        description="Sequence numbers of a gateway are missing: a spool file was not ingested, or records were lost.",
    )
    yield _alert(
        name="LoraCloseOverdue",
        promise="close",
        expr=_shown(names.CLOSE_OVERDUE),
        for_=ledger.close_for,
        summary="A month should have been closed {{ $value | humanizeDuration }} ago",
        description="Invoices of that month are not issued.",
        board=MONEY,
    )
    yield _alert(
        name="LoraPriceMissing",
        promise="price",
        expr=_shown(names.PRICE_MISSING),
        for_=ledger.price_for,
        summary="{{ $value | humanizeDuration }} of engine time have no price",
        description="The price book does not cover a GPU type or a date; that time is not billed.",
        board=MONEY,
    )
    yield _alert(
        name="LoraMarginNegative",
        promise="margin",
        expr=_margin_negative(promises),
        for_=ledger.margin_for,
        summary="Tenant {{ $labels.tenant }} costs more than it pays",
        description="Month to date, attributed cost exceeds revenue by {{ $value | humanize }} (in the price book's currency).",
        board=MONEY,
        variable="tenant",
    )
