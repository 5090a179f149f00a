"""OTLP in and out: what every spool line is, and what any other emitter may send."""

from __future__ import annotations

from telemetry.errors import LineInvalid
from telemetry.otlp_decode import (
    COLUMNS,
    Batch,
    EventRow,
    Rejected,
    SpanEvent,
    SpanLink,
    SpanRow,
    json_message,
    parse_line,
    parse_protobuf_traces,
    sift,
)
from telemetry.otlp_encode import event_line, span_line, spans_line

__all__ = [
    "COLUMNS",
    "Batch",
    "EventRow",
    "LineInvalid",
    "Rejected",
    "SpanEvent",
    "SpanLink",
    "SpanRow",
    "event_line",
    "json_message",
    "parse_line",
    "parse_protobuf_traces",
    "sift",
    "span_line",
    "spans_line",
]
