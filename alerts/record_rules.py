"""Rules about records and engine time: none lost, none unmeasured, none unexplained. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from alerts.expressions import duration, increase, percent, share, total
from alerts.links import PIPELINE
from alerts.model import Alert
from alerts.promises import Promises
from catalog.owners import TimeOwner
from telemetry import names
from telemetry.names import Metric

_alert = partial(Alert, board=PIPELINE)


def owner_share(promises: Promises, owner: TimeOwner) -> str:
    """Share of an engine's busy time that went to `owner`; no series while the engine was hardly busy."""
    ledger = promises.ledger
    window = duration(ledger.engine_time_window)
    part = total(names.ENGINE_TIME, "engine", window, f'owner="{owner}"')
    busy = total(names.ENGINE_TIME, "engine", window, f'owner!="{TimeOwner.IDLE}"')
    return share(part, f"{busy} >= {ledger.min_busy_seconds}")


def model_drift(promises: Promises) -> str:
    """|measured / predicted - 1| of an engine's steps by class: how far the step model is from the engine it describes.

    One class may be far off while the sum over all is right: errors of two classes cancel, and their tenants pay for each other.
    """
    ledger = promises.ledger
    window = duration(ledger.engine_time_window)
    measured = total(names.STEP_MEASURED, "engine, step_class", window)
    predicted = total(names.STEP_PREDICTED, "engine, step_class", window)
    # The difference is divided, not 1 taken off the quotient: 1.1 - 1 is more than 0.1 in binary.
    return share(f"abs({measured} - {predicted})", f"{predicted} >= {ledger.min_busy_seconds}")


def _counted(metric: Metric, window: int) -> str:
    """Any event at all over `window` seconds."""
    return f"{increase(metric.name, duration(window))} > 0"


def record_rules(promises: Promises) -> Iterator[Alert]:
    """Nothing on the way to the ledger is lost."""
    ledger = promises.ledger
    yield _alert(
        name="LoraSpoolWriteErrors",
        promise="records",
        severity="critical",
        expr=_counted(names.SPOOL_ERRORS, ledger.spool_window),
        summary="Gateway {{ $labels.instance }} cannot write its spool",
        description="{{ $value | humanize }} writes failed; usage records wait in memory and are lost if the process ends.",
    )
    yield _alert(
        name="LoraTelemetryDropped",
        promise="telemetry",
        expr=_counted(names.DROPPED, ledger.spool_window),
        summary="Gateway {{ $labels.instance }} loses telemetry ({{ $labels.what }})",
        description="About {{ $value | humanize }} were lost: spool lines hold usage records, the others only what traces show.",
    )
    yield _alert(
        name="LoraMeterGaps",
        promise="meter",
        expr=_counted(names.METER_GAPS, ledger.meter_window),
        summary="Meter events of {{ $labels.instance }} were lost",
        description="About {{ $value | humanize }} events never arrived; the time they described is booked as unattributed.",
    )
    yield _alert(
        name="LoraUsageUnmeasured",
        promise="meter",
        expr=_counted(names.METER_MISSING, ledger.unmeasured_window),
        summary="Usage records of {{ $labels.instance }} were closed without measured time",
        description="About {{ $value | humanize }} records have null time instead of the meter's figures.",
    )
    yield _alert(
        name="LoraBudgetDrift",
        promise="budgets",
        expr=_counted(names.BUDGET_WRITTEN_OFF, ledger.budget_window),
        summary="Gateway {{ $labels.instance }} and the ledger disagree about monthly budgets",
        description="About {{ $value | humanize }} holds expired or charges never came to the ledger; budgets may refuse too early or too late.",
    )


def engine_time_rules(promises: Promises) -> Iterator[Alert]:
    """Engine time has an owner, and the step model that splits it fits."""
    ledger = promises.ledger
    stalled = total(names.SYSTEM_TIME, "engine", duration(ledger.stall_window), 'cause="stall"')
    yield _alert(
        name="LoraEngineTimeUnattributed",
        promise="attribution",
        expr=f"{owner_share(promises, TimeOwner.UNATTRIBUTED)} > {ledger.unattributed:f}",
        for_=ledger.engine_time_for,
        summary="{{ $value | humanizePercentage }} of the busy time of engine {{ $labels.engine }} has no owner",
        description=f"Less than {percent(ledger.unattributed)} is promised; the rest is cost that no tenant and no cause explains.",
        labels={"owner": TimeOwner.UNATTRIBUTED.value},
    )
    yield _alert(
        name="LoraEngineTimeSystemHigh",
        promise="attribution",
        expr=f"{owner_share(promises, TimeOwner.SYSTEM)} > {ledger.system:f}",
        for_=ledger.engine_time_for,
        summary="{{ $value | humanizePercentage }} of the busy time of engine {{ $labels.engine }} is system time",
        description=f"Engine loop, empty steps and stalls should stay below {percent(ledger.system)}; the provider carries them.",
        labels={"owner": TimeOwner.SYSTEM.value},
    )
    yield _alert(
        name="LoraEngineStall",
        promise="attribution",
        expr=f"{stalled} > {ledger.stall_seconds:f}",
        summary="Engine {{ $labels.engine }} stood still for {{ $value | humanizeDuration }}",
        description="Steps took more than three times what their rows explain. Nobody is charged for the rest, but everybody waited.",
    )
    yield _alert(
        name="LoraStepModelDrift",
        promise="attribution",
        expr=f"{model_drift(promises)} > {ledger.drift:f}",
        for_=ledger.engine_time_for,
        summary="The step model of engine {{ $labels.engine }} is off by {{ $value | humanizePercentage }} in steps of class {{ $labels.step_class }}",
        description=f"Steps are split among tenants by a profile that no longer fits; {percent(ledger.drift)} is the limit. Fit it again.",
    )


def label_rules(promises: Promises) -> Iterator[Alert]:
    """Label values stay within their bounds."""
    yield _alert(
        name="LoraLabelOverflow",
        promise="labels",
        expr=_counted(names.LABEL_OVERFLOW, promises.ledger.overflow_window),
        summary="Values of label {{ $labels.label }} are folded into `other`",
        description="About {{ $value | humanize }} observations of {{ $labels.instance }} lost their own label; alerts by tenant do not see them.",
    )
