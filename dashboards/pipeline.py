"""Whether every record arrives, every second is explained, and the ledger keeps up."""

from __future__ import annotations

from typing import Final

from alerts.expressions import percent
from alerts.links import PIPELINE
from alerts.promises import DEFAULT
from alerts.record_rules import model_drift, owner_share
from catalog.owners import TimeOwner
from dashboards.model import GREEN, RED, YELLOW, ColorStep, Dashboard, Prom, Sql, Stat, TablePanel, TimeSeries
from dashboards.promql import increase, rate
from telemetry import names

_LEDGER: Final = DEFAULT.ledger
_NONE_STEPS: Final = (ColorStep(GREEN), ColorStep(YELLOW, 1e-9))
_ERROR_STEPS: Final = (ColorStep(GREEN), ColorStep(RED, 1e-9))
_AGE_STEPS: Final = (ColorStep(GREEN), ColorStep(YELLOW, float(_LEDGER.snapshot_age)))
_UNATTRIBUTED_STEPS: Final = (ColorStep(GREEN), ColorStep(YELLOW, float(_LEDGER.unattributed)))
_SYSTEM_STEPS: Final = (ColorStep(GREEN), ColorStep(YELLOW, float(_LEDGER.system)))
_DRIFT_STEPS: Final = (ColorStep(GREEN), ColorStep(YELLOW, float(_LEDGER.drift)))

PIPELINE_BOARD: Final = Dashboard(
    PIPELINE,
    "Whether every record arrives, every second is explained, and the ledger keeps up.",
    (
        Stat(
            "Snapshot age",
            "Of the ledger's last published figures; LoraSnapshotStale warns at the threshold.",
            Prom("snapshot_age", f"min({names.SNAPSHOT_AGE.name})", "age"),
            "s",
            steps=_AGE_STEPS,
            empty="none published",
        ),
        Stat(
            "In quarantine",
            "Records that block the close.",
            Prom("quarantine", f"max({names.QUARANTINE.name})", "records"),
            steps=_NONE_STEPS,
        ),
        Stat(
            "Record gaps",
            "Sequence numbers that never reached the ledger.",
            Prom("record_gaps", f"max({names.RECORD_GAPS.name})", "records"),
            steps=_NONE_STEPS,
        ),
        Stat(
            "Close overdue",
            "Since the oldest unclosed month was due.",
            Prom("close_overdue", f"max({names.CLOSE_OVERDUE.name})", "overdue"),
            "s",
            steps=_NONE_STEPS,
        ),
        Stat(
            "Time without a price",
            "Engine time of this month.",
            Prom("price_missing", f"max({names.PRICE_MISSING.name})", "unpriced"),
            "s",
            steps=_NONE_STEPS,
        ),
        Stat(
            "Ledger age",
            "Age of the last engine minute and of the last quarter hour with cost.",
            Sql("ledger_freshness"),
            "s",
        ),
        TimeSeries(
            "Spool lines",
            "Lines made durable per second.",
            Prom("spool_lines", rate(names.SPOOL_LINES, "instance"), "{{instance}}"),
            width=8,
        ),
        TimeSeries(
            "Spool write errors",
            "LoraSpoolWriteErrors pages above 0.",
            Prom("spool_errors", increase(names.SPOOL_ERRORS, "instance"), "{{instance}}"),
            steps=_ERROR_STEPS,
            width=8,
        ),
        TimeSeries(
            "Meter",
            "Lost events, records closed without the meter's figures, and budget write-offs: all stay at 0.",
            (
                Prom("meter_gaps", increase(names.METER_GAPS, "instance"), "{{instance}} lost events"),
                Prom("unmeasured", increase(names.METER_MISSING, "instance"), "{{instance}} unmeasured records"),
                Prom("budget_drift", increase(names.BUDGET_WRITTEN_OFF, "instance"), "{{instance}} budget write-offs"),
            ),
            steps=_NONE_STEPS,
            width=8,
        ),
        TimeSeries(
            "Unattributed time",
            f"Share of busy time over an hour; the line is {percent(_LEDGER.unattributed)}.",
            Prom("unattributed_share", owner_share(DEFAULT, TimeOwner.UNATTRIBUTED), "{{engine}}"),
            "percentunit",
            steps=_UNATTRIBUTED_STEPS,
            width=8,
        ),
        TimeSeries(
            "System time",
            f"Share of busy time over an hour; the line is {percent(_LEDGER.system)}.",
            Prom("system_share", owner_share(DEFAULT, TimeOwner.SYSTEM), "{{engine}}"),
            "percentunit",
            steps=_SYSTEM_STEPS,
            width=8,
        ),
        TimeSeries(
            "Step model drift",
            f"|measured / predicted - 1| over an hour; the line is {percent(_LEDGER.drift)}.",
            Prom("model_drift", model_drift(DEFAULT), "{{engine}} {{step_class}}"),
            "percentunit",
            steps=_DRIFT_STEPS,
            width=8,
        ),
        TimeSeries(
            "Attempts by status",
            "From the ledger: `lost` are attempts that opened and never closed.",
            Sql("attempts_by_status"),
        ),
        TimeSeries(
            "Label values folded into `other`",
            "LoraLabelOverflow warns above 0.",
            Prom("label_overflow", increase(names.LABEL_OVERFLOW, "label"), "{{label}}"),
            steps=_NONE_STEPS,
        ),
        TablePanel(
            "Quarantine",
            "What blocks a close, by reason.",
            Sql("quarantine_reasons"),
            width=12,
        ),
        TablePanel(
            "Records by gateway",
            "Numbers that are missing were lost, or wait in a spool that was not ingested.",
            Sql("record_gaps"),
            width=12,
        ),
        TablePanel(
            "Spool files",
            "How far each was read.",
            Sql("ingested_files"),
        ),
    ),
)
