"""Rules about the books: what the meter, the spool and the ledger promise, and money. No I/O."""

from __future__ import annotations

from alerts.expressions import duration, increase, percent, share, total
from alerts.links import MONEY, PIPELINE, Board
from alerts.model import Alert, Group
from alerts.promises import Promises
from telemetry import names
from telemetry.names import Metric


def owner_share(promises: Promises, owner: str) -> str:
    """Share of an engine's busy time that went to `owner`; no series while the engine was hardly busy."""
    ledger = promises.ledger
    window = duration(ledger.engine_time_window)
    part = total(names.ENGINE_TIME, "engine", window, f'owner="{owner}"')
    busy = total(names.ENGINE_TIME, "engine", window, 'owner!="idle"')
    return share(part, f"{busy} >= {ledger.min_busy_seconds}")


def model_drift(promises: Promises) -> str:
    """|measured / predicted - 1| of an engine's steps: how far the step model is from the engine it describes."""
    ledger = promises.ledger
    window = duration(ledger.engine_time_window)
    measured = total(names.ENGINE_TIME, "engine", window, 'owner=~"tenants|recompute"')
    predicted = total(names.STEP_PREDICTED, "engine", window)
    return f"abs({share(measured, f'{predicted} >= {ledger.min_busy_seconds}')} - 1)"


def stalled(promises: Promises) -> str:
    """Seconds of an engine's steps above three times their prediction."""
    return total(names.SYSTEM_TIME, "engine", duration(promises.ledger.stall_window), 'cause="stall"')


def _counted(
    name: str, promise: str, metric: Metric, window: int, summary: str, description: str, *, critical: bool = False
) -> Alert:
    return Alert(
        name=name,
        promise=promise,
        severity="critical" if critical else "warning",
        expr=f"{increase(metric.name, duration(window))} > 0",
        for_=0,
        summary=summary,
        description=description,
        board=PIPELINE,
    )


def _snapshot(
    name: str, promise: str, metric: Metric, for_: int, summary: str, description: str, board: Board = PIPELINE
) -> Alert:
    """Every gateway shows the same snapshot of the ledger, so `max` makes one alert of it."""
    return Alert(
        name=name,
        promise=promise,
        severity="warning",
        expr=f"max({metric.name}) > 0",
        for_=for_,
        summary=summary,
        description=description,
        board=board,
    )


def _owner(promises: Promises, name: str, owner: str, limit: str, summary: str, description: str) -> Alert:
    return Alert(
        name=name,
        promise="attribution",
        severity="warning",
        expr=f"{owner_share(promises, owner)} > {limit}",
        for_=promises.ledger.engine_time_for,
        summary=summary,
        description=description,
        board=PIPELINE,
        labels={"owner": owner},
    )


def record_group(promises: Promises) -> Group:
    """Alerts about records: none lost, none unmeasured, none unexplained."""
    ledger = promises.ledger
    return Group(
        "loraledger-records",
        (
            _counted(
                "LoraSpoolWriteErrors",
                "records",
                names.SPOOL_ERRORS,
                ledger.spool_window,
                "Gateway {{ $labels.instance }} cannot write its spool",
                "{{ $value | humanize }} writes failed; usage records wait in memory and are lost if the process ends.",
                critical=True,
            ),
            _counted(
                "LoraTelemetryDropped",
                "telemetry",
                names.DROPPED,
                ledger.spool_window,
                "Gateway {{ $labels.instance }} loses telemetry ({{ $labels.what }})",
                "About {{ $value | humanize }} were lost: spool lines hold usage records, the others only what traces show.",
            ),
            _counted(
                "LoraMeterGaps",
                "meter",
                names.METER_GAPS,
                ledger.meter_window,
                "Meter events of {{ $labels.instance }} were lost",
                "About {{ $value | humanize }} events never arrived; the time they described is booked as unattributed.",
            ),
            _counted(
                "LoraUsageUnmeasured",
                "meter",
                names.METER_MISSING,
                ledger.unmeasured_window,
                "Usage records of {{ $labels.instance }} were closed without measured time",
                "About {{ $value | humanize }} records have null time instead of the meter's figures.",
            ),
            _counted(
                "LoraBudgetDrift",
                "budgets",
                names.BUDGET_WRITTEN_OFF,
                ledger.budget_window,
                "Gateway {{ $labels.instance }} and the ledger disagree about monthly budgets",
                "About {{ $value | humanize }} holds expired or charges never came to the ledger; budgets may refuse too early or too late.",
            ),
            _owner(
                promises,
                "LoraEngineTimeUnattributed",
                "unattributed",
                f"{ledger.unattributed:f}",
                "{{ $value | humanizePercentage }} of the busy time of engine {{ $labels.engine }} has no owner",
                f"Less than {percent(ledger.unattributed)} is promised; the rest is cost that no tenant and no cause explains.",
            ),
            _owner(
                promises,
                "LoraEngineTimeSystemHigh",
                "system",
                f"{ledger.system:f}",
                "{{ $value | humanizePercentage }} of the busy time of engine {{ $labels.engine }} is system time",
                f"Engine loop, empty steps and stalls should stay below {percent(ledger.system)}; the provider carries them.",
            ),
            Alert(
                name="LoraEngineStall",
                promise="attribution",
                severity="warning",
                expr=f"{stalled(promises)} > {ledger.stall_seconds:f}",
                for_=0,
                summary="Engine {{ $labels.engine }} stood still for {{ $value | humanizeDuration }}",
                description="Steps took more than three times what their rows explain. Nobody is charged for the rest, but everybody waited.",
                board=PIPELINE,
            ),
            Alert(
                name="LoraStepModelDrift",
                promise="attribution",
                severity="warning",
                expr=f"{model_drift(promises)} > {ledger.drift:f}",
                for_=ledger.engine_time_for,
                summary="The step model of engine {{ $labels.engine }} is off by {{ $value | humanizePercentage }}",
                description=f"Steps are split among tenants by a profile that no longer fits; {percent(ledger.drift)} is the limit. Fit it again.",
                board=PIPELINE,
            ),
            _counted(
                "LoraLabelOverflow",
                "labels",
                names.LABEL_OVERFLOW,
                ledger.overflow_window,
                "Values of label {{ $labels.label }} are folded into `other`",
                "About {{ $value | humanize }} observations of {{ $labels.instance }} lost their own label; alerts by tenant do not see them.",
            ),
        ),
    )


def money_group(promises: Promises) -> Group:
    """Alerts about the ledger and its money, from the last published snapshot."""
    ledger = promises.ledger
    # Without any snapshot there is no age: then the gateways' own is judged.
    never = f"(max(time() - {names.PROCESS_START.name}) unless on () {names.SNAPSHOT_AGE.name})"
    cost, revenue = (f"max by (tenant) ({metric.name})" for metric in (names.TENANT_COST, names.TENANT_REVENUE))
    return Group(
        "loraledger-money",
        (
            Alert(
                name="LoraSnapshotStale",
                promise="ledger",
                severity="warning",
                expr=f"min({names.SNAPSHOT_AGE.name}) > {ledger.snapshot_age}\nor on () {never} > {ledger.snapshot_age}",
                for_=ledger.snapshot_for,
                summary="The ledger has published no snapshot for {{ $value | humanizeDuration }}",
                description="Cost gauges and money alerts show that moment, not now; the pipeline has stopped publishing.",
                board=PIPELINE,
            ),
            _snapshot(
                "LoraQuarantineNotEmpty",
                "quarantine",
                names.QUARANTINE,
                ledger.quarantine_for,
                "{{ $value | humanize }} usage records are in quarantine",
                "The month cannot be closed while records wait there.",
            ),
            _snapshot(
                "LoraRecordGaps",
                "complete",
                names.RECORD_GAPS,
                ledger.gaps_for,
                "{{ $value | humanize }} usage records never reached the ledger",
                "Sequence numbers of a gateway are missing: a spool file was not ingested, or records were lost.",
            ),
            _snapshot(
                "LoraCloseOverdue",
                "close",
                names.CLOSE_OVERDUE,
                ledger.close_for,
                "A month should have been closed {{ $value | humanizeDuration }} ago",
                "Invoices of that month are not issued.",
                MONEY,
            ),
            _snapshot(
                "LoraPriceMissing",
                "price",
                names.PRICE_MISSING,
                ledger.price_for,
                "{{ $value | humanizeDuration }} of engine time have no price",
                "The price book does not cover a GPU type or a date; that time is not billed.",
                MONEY,
            ),
            Alert(
                name="LoraMarginNegative",
                promise="margin",
                severity="warning",
                expr=f"{cost} - {revenue} > 0\nand {cost} >= {ledger.margin_min_cost}",
                for_=ledger.margin_for,
                summary="Tenant {{ $labels.tenant }} costs more than it pays",
                description="Month to date, attributed cost exceeds revenue by {{ $value | humanize }} (in the price book's currency).",
                board=MONEY,
                variable="tenant",
            ),
        ),
    )
