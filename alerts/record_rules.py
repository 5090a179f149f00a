"""Rules about records and engine time: none lost, none unmeasured, none unexplained. No I/O."""

from __future__ import annotations

from typing import Final

from alerts.expressions import duration, increase, percent, share, total
from alerts.links import PIPELINE
from alerts.promises import Promises
from alerts.rows import AlertRow, GroupRows
from catalog.owners import TimeOwner
from telemetry import names
from telemetry.names import Metric


def owner_share(promises: Promises, owner: TimeOwner) -> str:
    """Share of an engine's busy time that went to `owner`; no series while the engine was hardly busy."""
    ledger = promises.ledger
    window = duration(ledger.engine_time_window)
    part = total(names.ENGINE_TIME, "engine", window, f'owner="{owner}"')
    busy = total(names.ENGINE_TIME, "engine", window, f'owner!="{TimeOwner.IDLE}"')
    return share(part, f"{busy} >= {ledger.min_busy_seconds}")


def model_drift(promises: Promises) -> str:
    """|measured / predicted - 1| of an engine's steps: how far the step model is from the engine it describes."""
    ledger = promises.ledger
    window = duration(ledger.engine_time_window)
    measured = total(names.ENGINE_TIME, "engine", window, f'owner=~"{TimeOwner.TENANTS}|{TimeOwner.RECOMPUTE}"')
    predicted = total(names.STEP_PREDICTED, "engine", window)
    return f"abs({share(measured, f'{predicted} >= {ledger.min_busy_seconds}')} - 1)"


def _stalled(promises: Promises) -> str:
    """Seconds of an engine's steps above three times their prediction."""
    return total(names.SYSTEM_TIME, "engine", duration(promises.ledger.stall_window), 'cause="stall"')


def _counted(metric: Metric, window: int) -> str:
    """Any event at all over `window` seconds."""
    return f"{increase(metric.name, duration(window))} > 0"


RECORD_RULES: Final = GroupRows(
    "loraledger-records",
    (
        AlertRow(
            name="LoraSpoolWriteErrors",
            promise="records",
            severity="critical",
            expr=lambda p: _counted(names.SPOOL_ERRORS, p.ledger.spool_window),
            summary="Gateway {{ $labels.instance }} cannot write its spool",
            description="{{ $value | humanize }} writes failed; usage records wait in memory and are lost if the process ends.",
            board=PIPELINE,
        ),
        AlertRow(
            name="LoraTelemetryDropped",
            promise="telemetry",
            severity="warning",
            expr=lambda p: _counted(names.DROPPED, p.ledger.spool_window),
            summary="Gateway {{ $labels.instance }} loses telemetry ({{ $labels.what }})",
            description="About {{ $value | humanize }} were lost: spool lines hold usage records, the others only what traces show.",
            board=PIPELINE,
        ),
        AlertRow(
            name="LoraMeterGaps",
            promise="meter",
            severity="warning",
            expr=lambda p: _counted(names.METER_GAPS, p.ledger.meter_window),
            summary="Meter events of {{ $labels.instance }} were lost",
            description="About {{ $value | humanize }} events never arrived; the time they described is booked as unattributed.",
            board=PIPELINE,
        ),
        AlertRow(
            name="LoraUsageUnmeasured",
            promise="meter",
            severity="warning",
            expr=lambda p: _counted(names.METER_MISSING, p.ledger.unmeasured_window),
            summary="Usage records of {{ $labels.instance }} were closed without measured time",
            description="About {{ $value | humanize }} records have null time instead of the meter's figures.",
            board=PIPELINE,
        ),
        AlertRow(
            name="LoraBudgetDrift",
            promise="budgets",
            severity="warning",
            expr=lambda p: _counted(names.BUDGET_WRITTEN_OFF, p.ledger.budget_window),
            summary="Gateway {{ $labels.instance }} and the ledger disagree about monthly budgets",
            description="About {{ $value | humanize }} holds expired or charges never came to the ledger; budgets may refuse too early or too late.",
            board=PIPELINE,
        ),
        AlertRow(
            name="LoraEngineTimeUnattributed",
            promise="attribution",
            severity="warning",
            expr=lambda p: f"{owner_share(p, TimeOwner.UNATTRIBUTED)} > {p.ledger.unattributed:f}",
            for_=lambda p: p.ledger.engine_time_for,
            summary="{{ $value | humanizePercentage }} of the busy time of engine {{ $labels.engine }} has no owner",
            description=lambda p: (
                f"Less than {percent(p.ledger.unattributed)} is promised; the rest is cost that no tenant and no cause explains."
            ),
            board=PIPELINE,
            labels={"owner": TimeOwner.UNATTRIBUTED.value},
        ),
        AlertRow(
            name="LoraEngineTimeSystemHigh",
            promise="attribution",
            severity="warning",
            expr=lambda p: f"{owner_share(p, TimeOwner.SYSTEM)} > {p.ledger.system:f}",
            for_=lambda p: p.ledger.engine_time_for,
            summary="{{ $value | humanizePercentage }} of the busy time of engine {{ $labels.engine }} is system time",
            description=lambda p: (
                f"Engine loop, empty steps and stalls should stay below {percent(p.ledger.system)}; the provider carries them."
            ),
            board=PIPELINE,
            labels={"owner": TimeOwner.SYSTEM.value},
        ),
        AlertRow(
            name="LoraEngineStall",
            promise="attribution",
            severity="warning",
            expr=lambda p: f"{_stalled(p)} > {p.ledger.stall_seconds:f}",
            summary="Engine {{ $labels.engine }} stood still for {{ $value | humanizeDuration }}",
            description="Steps took more than three times what their rows explain. Nobody is charged for the rest, but everybody waited.",
            board=PIPELINE,
        ),
        AlertRow(
            name="LoraStepModelDrift",
            promise="attribution",
            severity="warning",
            expr=lambda p: f"{model_drift(p)} > {p.ledger.drift:f}",
            for_=lambda p: p.ledger.engine_time_for,
            summary="The step model of engine {{ $labels.engine }} is off by {{ $value | humanizePercentage }}",
            description=lambda p: (
                f"Steps are split among tenants by a profile that no longer fits; {percent(p.ledger.drift)} is the limit. Fit it again."
            ),
            board=PIPELINE,
        ),
        AlertRow(
            name="LoraLabelOverflow",
            promise="labels",
            severity="warning",
            expr=lambda p: _counted(names.LABEL_OVERFLOW, p.ledger.overflow_window),
            summary="Values of label {{ $labels.label }} are folded into `other`",
            description="About {{ $value | humanize }} observations of {{ $labels.instance }} lost their own label; alerts by tenant do not see them.",
            board=PIPELINE,
        ),
    ),
)
