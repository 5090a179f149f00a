"""OTLP in and out: what every spool line is, and what any other emitter may send."""

from __future__ import annotations

from telemetry.errors import LineInvalid
from telemetry.otlp_decode import (
    COLUMNS,
    Batch,
    EventRow,
    SpanEvent,
    SpanLink,
    SpanRow,
    parse_line,
    parse_protobuf_traces,
)
from telemetry.otlp_encode import event_line, span_line, spans_line

__all__ = [
    "COLUMNS",
    "Batch",
    "EventRow",
    "LineInvalid",
    "SpanEvent",
    "SpanLink",
    "SpanRow",
    "event_line",
    "parse_line",
    "parse_protobuf_traces",
    "span_line",
    "spans_line",
]
