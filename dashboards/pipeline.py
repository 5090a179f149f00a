"""Whether every record arrives, every second is explained, and the ledger keeps up."""

from __future__ import annotations

from typing import Any, Final

from alerts.expressions import percent
from alerts.links import PIPELINE
from alerts.promises import DEFAULT
from dashboards.panels import GREEN, RED, YELLOW, Prom, Sql, Step, board, stat, table, timeseries
from dashboards.queries import promql_queries, sql_queries

_LEDGER: Final = DEFAULT.ledger
NONE_STEPS: Final = (Step(GREEN), Step(YELLOW, 1e-9))
ERROR_STEPS: Final = (Step(GREEN), Step(RED, 1e-9))
AGE_STEPS: Final = (Step(GREEN), Step(YELLOW, float(_LEDGER.snapshot_age)))
UNATTRIBUTED_STEPS: Final = (Step(GREEN), Step(YELLOW, float(_LEDGER.unattributed)))
SYSTEM_STEPS: Final = (Step(GREEN), Step(YELLOW, float(_LEDGER.system)))
DRIFT_STEPS: Final = (Step(GREEN), Step(YELLOW, float(_LEDGER.drift)))


def pipeline_board() -> dict[str, Any]:
    """Spool, meter, ledger and close."""
    q, sql = promql_queries(), sql_queries()
    return board(
        PIPELINE,
        "Whether every record arrives, every second is explained, and the ledger keeps up.",
        [
            stat(
                "Snapshot age",
                "Of the ledger's last published figures; LoraSnapshotStale warns at the threshold.",
                Prom(q["snapshot_age"], "age", instant=True),
                "s",
                steps=AGE_STEPS,
                empty="none published",
            ),
            stat(
                "In quarantine",
                "Records that block the close.",
                Prom(q["quarantine"], "records", instant=True),
                "short",
                steps=NONE_STEPS,
            ),
            stat(
                "Record gaps",
                "Sequence numbers that never reached the ledger.",
                Prom(q["record_gaps"], "records", instant=True),
                "short",
                steps=NONE_STEPS,
            ),
            stat(
                "Close overdue",
                "Since the oldest unclosed month was due.",
                Prom(q["close_overdue"], "overdue", instant=True),
                "s",
                steps=NONE_STEPS,
            ),
            stat(
                "Time without a price",
                "Engine time of this month.",
                Prom(q["price_missing"], "unpriced", instant=True),
                "s",
                steps=NONE_STEPS,
            ),
            stat(
                "Ledger age",
                "Age of the last engine minute and of the last quarter hour with cost.",
                Sql(sql["ledger_freshness"]),
                "s",
            ),
            timeseries(
                "Spool lines",
                "Lines made durable per second.",
                [Prom(q["spool_lines"], "{{instance}}")],
                "short",
                width=8,
            ),
            timeseries(
                "Spool write errors",
                "LoraSpoolWriteErrors pages above 0.",
                [Prom(q["spool_errors"], "{{instance}}")],
                "short",
                steps=ERROR_STEPS,
                width=8,
            ),
            timeseries(
                "Meter",
                "Lost events, records closed without the meter's figures, and budget write-offs: all stay at 0.",
                [
                    Prom(q["meter_gaps"], "{{instance}} lost events"),
                    Prom(q["unmeasured"], "{{instance}} unmeasured records"),
                    Prom(q["budget_drift"], "{{instance}} budget write-offs"),
                ],
                "short",
                steps=NONE_STEPS,
                width=8,
            ),
            timeseries(
                "Unattributed time",
                f"Share of busy time over an hour; the line is {percent(_LEDGER.unattributed)}.",
                [Prom(q["unattributed_share"], "{{engine}}")],
                "percentunit",
                steps=UNATTRIBUTED_STEPS,
                width=8,
            ),
            timeseries(
                "System time",
                f"Share of busy time over an hour; the line is {percent(_LEDGER.system)}.",
                [Prom(q["system_share"], "{{engine}}")],
                "percentunit",
                steps=SYSTEM_STEPS,
                width=8,
            ),
            timeseries(
                "Step model drift",
                f"|measured / predicted - 1| over an hour; the line is {percent(_LEDGER.drift)}.",
                [Prom(q["model_drift"], "{{engine}}")],
                "percentunit",
                steps=DRIFT_STEPS,
                width=8,
            ),
            timeseries(
                "Attempts by status",
                "From the ledger: `lost` are attempts that opened and never closed.",
                [Sql(sql["attempts_by_status"], series=True)],
                "short",
                bars=True,
                stacked=True,
            ),
            timeseries(
                "Label values folded into `other`",
                "LoraLabelOverflow warns above 0.",
                [Prom(q["label_overflow"], "{{label}}")],
                "short",
                steps=NONE_STEPS,
            ),
            table(
                "Quarantine",
                "What blocks a close, by reason.",
                Sql(sql["quarantine_reasons"]),
                width=12,
            ),
            table(
                "Records by gateway",
                "Numbers that are missing were lost, or wait in a spool that was not ingested.",
                Sql(sql["record_gaps"]),
                width=12,
            ),
            table("Spool files", "How far each was read.", Sql(sql["ingested_files"])),
        ],
    )
