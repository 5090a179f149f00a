"""What can go wrong while measuring.

TelemetryError
├── SpoolWriteFailed   a line is not durable (yet, or never)
├── LineInvalid        a line or message is not OTLP as promised
├── TraceClosed        an attempt was closed twice, or written to after its end
└── MetricMisused      a metric was used against its declaration in `telemetry.names`

`telemetry.usage.UsageInvalid` and `telemetry.engine_time.NotConserved` live beside the values they judge.
"""

from __future__ import annotations

from pathlib import Path


class TelemetryError(Exception):
    """Base of every error of this room."""


class SpoolWriteFailed(TelemetryError):
    """A line is not on disk. `kept` tells whether the spool still holds it in memory and will write it later."""

    def __init__(self, directory: Path, fact: str, *, kept: bool) -> None:
        self.directory = directory
        self.kept = kept
        fate = "the line is kept in memory and retried" if kept else "the line is lost"
        super().__init__(f"could not write spool {directory}: {fact}; {fate}")


class LineInvalid(TelemetryError, ValueError):
    """A spool line or OTLP message cannot be taken; `reason` says where and why, for the quarantine."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"could not read OTLP: {reason}")


class TraceClosed(TelemetryError, RuntimeError):
    """The attempt's trace has ended; every attempt ends exactly once."""

    def __init__(self, trace_id: str, verb: str) -> None:
        self.trace_id = trace_id
        super().__init__(f"could not {verb} trace {trace_id}: it is closed")


class MetricMisused(TelemetryError, ValueError):
    """A call does not fit the metric's kind or labels."""

    def __init__(self, metric: str, fact: str) -> None:
        self.metric = metric
        super().__init__(f"could not record {metric}: {fact}")
