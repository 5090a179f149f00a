"""Writes OTLP/JSON: one ExportTraceServiceRequest or ExportLogsServiceRequest per line, ids as hex, 64-bit integers as strings."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, format_span_id, format_trace_id

from telemetry.engine_time import (
    AdapterLeft,
    AdapterLoad,
    EngineCounters,
    EngineSession,
    EngineValue,
    MeterWindow,
    PrefixReshare,
)
from telemetry.names import SERVICE_NAME, EventName
from telemetry.otlp_values import NOT_FINITE, whole
from telemetry.values import json_line

Json = dict[str, Any]

ATTR_EMITTER: Final = "loraledger.emitter"
ATTR_SEQ: Final = "loraledger.seq"
_OURS: Final[Json] = {"name": "loraledger"}
"""The scope of what is not made by the SDK."""
_SEVERITY_INFO: Final = 9
_EVENTS: Final[Mapping[type[EngineValue], tuple[str, str]]] = {
    MeterWindow: (EventName.WINDOW, "end_ns"),
    AdapterLoad: (EventName.LOAD, "start_ns"),
    AdapterLeft: (EventName.LEFT, "at_ns"),
    EngineSession: (EventName.SESSION, "at_ns"),
    EngineCounters: (EventName.COUNTERS, "at_ns"),
    PrefixReshare: (EventName.RESHARE, "at_ns"),
}
"""By kind of value, the name of its event and the field that has its instant."""
_FLAG_REMOTE_KNOWN: Final = 0x100
_FLAG_REMOTE: Final = 0x200


def spans_line(spans: Sequence[ReadableSpan]) -> str:
    """All `spans` of one tracer as one line of OTLP/JSON. ValueError for a span without an end."""
    resource, scope = spans[0].resource, spans[0].instrumentation_scope
    named = {"name": scope.name, "version": scope.version or ""} if scope else _OURS | {"version": ""}
    return _line("Spans", "spans", [_span(span) for span in spans], resource.attributes, named)


def span_line(
    trace_id: str,
    span_id: str,
    parent_span_id: str,
    name: str,
    start_ns: int,
    end_ns: int,
    attrs: Mapping[str, Any],
    resource: Mapping[str, Any],
) -> str:
    """One SERVER span from plain values, for when the SDK could not make it."""
    span: Json = {
        "traceId": trace_id,
        "spanId": span_id,
        "parentSpanId": parent_span_id,
        "name": whole(name),
        "kind": 2,
        "startTimeUnixNano": str(start_ns),
        "endTimeUnixNano": str(end_ns),
        "attributes": key_values(attrs),
        "status": {},
    }
    return _line("Spans", "spans", [span], resource)


def event_line(
    name: str, body_json: str, at_ns: int, attributes: Mapping[str, Any] | None, emitter: str, seq: int
) -> str:
    """One log event as a line; its identity is (`name`, `emitter`, `seq`), its body the JSON text of the value.

    ValueError when the identity is not one: an empty emitter or a negative seq.
    """
    if not emitter or seq < 0:
        raise ValueError(
            f"could not write event {name}: identity ({emitter!r}, {seq}) needs an emitter and a seq from 0"
        )
    record: Json = {
        "timeUnixNano": str(at_ns),
        "observedTimeUnixNano": str(at_ns),
        "severityNumber": _SEVERITY_INFO,
        "eventName": name,
        "body": {"stringValue": whole(body_json)},
        "attributes": key_values({**(attributes or {}), ATTR_EMITTER: emitter, ATTR_SEQ: seq}),
    }
    return _line("Logs", "logRecords", [record], {"service.name": SERVICE_NAME})


def engine_line(value: EngineValue) -> str:
    """One value of the meter's stream as a line: a log event named after the kind of value, at the instant of the value."""
    name, instant = _EVENTS[type(value)]
    return event_line(name, value.to_json(), getattr(value, instant), {}, value.emitter, value.seq)


def key_values(values: Mapping[str, Any] | None) -> list[Json]:
    """Attributes as a KeyValue list, in their order; None values are left out."""
    return [
        {"key": whole(key), "value": any_value(value)} for key, value in (values or {}).items() if value is not None
    ]


def any_value(value: Any) -> Json:
    """One value as AnyValue: integers beyond 64 bits and unknown types become text, never an error."""
    if type(value) is str:  # as nearly all of the fifty of an attempt
        return {"stringValue": whole(value)}
    match value:
        case None:
            return {}
        case bool():
            return {"boolValue": value}
        case int() if -(2**63) <= value < 2**63:
            return {"intValue": str(int(value))}
        case float():
            return {"doubleValue": float(value) if math.isfinite(value) else NOT_FINITE[repr(float(value))]}
        case str():
            return {"stringValue": whole(str(value))}
        case bytes():
            return {"bytesValue": base64.b64encode(value).decode("ascii")}
        case Mapping():
            pairs = [{"key": whole(str(key)), "value": any_value(part)} for key, part in value.items()]
            return {"kvlistValue": {"values": pairs}}
        case Sequence():
            return {"arrayValue": {"values": [any_value(part) for part in value]}}
    return {"stringValue": whole(str(value))}


def _line(signal: str, leaves: str, told: list[Json], resource: Mapping[str, Any], scope: Json = _OURS) -> str:
    """The message that holds spans or log records of one resource and one scope."""
    scoped = {"scope": scope, leaves: told}
    owned = {"resource": {"attributes": key_values(resource)}, f"scope{signal}": [scoped]}
    return json_line({f"resource{signal}": [owned]})


def _span(span: ReadableSpan) -> Json:
    context = span.get_span_context()
    if context is None or span.start_time is None or span.end_time is None:
        raise ValueError(f"could not write span {span.name}: it has no context, start or end")
    remote = span.parent is not None and span.parent.is_remote
    message: Json = {
        "traceId": format_trace_id(context.trace_id),
        "spanId": format_span_id(context.span_id),
        "parentSpanId": format_span_id(span.parent.span_id) if span.parent else "",
        "flags": int(context.trace_flags) | _FLAG_REMOTE_KNOWN | (_FLAG_REMOTE if remote else 0),
        "name": whole(span.name),
        "kind": span.kind.value + 1,
        "startTimeUnixNano": str(span.start_time),
        "endTimeUnixNano": str(span.end_time),
        "attributes": key_values(span.attributes),
        "status": {},
    }
    if context.trace_state:
        message["traceState"] = context.trace_state.to_header()
    if span.events:
        message["events"] = [
            {
                "timeUnixNano": str(event.timestamp),
                "name": whole(event.name),
                "attributes": key_values(event.attributes),
            }
            for event in span.events
        ]
    if span.links:
        message["links"] = [_link(link.context, link.attributes) for link in span.links]
    if code := span.status.status_code.value:
        message["status"] = {"code": code, "message": whole(span.status.description or "")}
    for field, count in (
        ("droppedAttributesCount", span.dropped_attributes),
        ("droppedEventsCount", span.dropped_events),
    ):
        if count:
            message[field] = count
    return message


def _link(context: SpanContext, attrs: Mapping[str, Any] | None) -> Json:
    link: Json = {
        "traceId": format_trace_id(context.trace_id),
        "spanId": format_span_id(context.span_id),
        "attributes": key_values(attrs),
    }
    if context.trace_state:
        link["traceState"] = context.trace_state.to_header()
    return link
