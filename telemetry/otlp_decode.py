"""Reads OTLP, JSON or protobuf, into rows: spans with the Collector's ClickHouse columns, and the ledger's own log events.

Tolerant where emitters differ (64-bit integers as text or number, enums as number or name, every kind of attribute
value, fields left out); strict where identity matters (trace, span, emitter, seq).
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from telemetry.errors import LineInvalid
from telemetry.otlp_encode import ATTR_EMITTER, ATTR_SEQ
from telemetry.otlp_values import attributes, enum_name, hex_id, instant, items, message, text, whole

_KINDS: Final = ("Unspecified", "Internal", "Server", "Client", "Producer", "Consumer")
_STATUS: Final = ("Unset", "Ok", "Error")
_OWN_EVENTS: Final = "loraledger."
_DIGITS: Final = 40
"""More digits than any 64-bit integer has; Python would refuse thousands, and with them the whole line."""

COLUMNS: Final = (
    "Timestamp", "TraceId", "SpanId", "ParentSpanId", "TraceState", "SpanName", "SpanKind", "ServiceName", "ResourceAttributes",
    "ScopeName", "ScopeVersion", "SpanAttributes", "Duration", "StatusCode", "StatusMessage", "Events.Timestamp", "Events.Name",
    "Events.Attributes", "Links.TraceId", "Links.SpanId", "Links.TraceState", "Links.Attributes",
)  # fmt: skip
"""The Collector's `otel_traces`, in the order of its INSERT."""


class SpanEvent(NamedTuple):
    """Something that happened at `timestamp` (UTC nanoseconds) inside a span."""

    timestamp: int
    name: str
    attributes: dict[str, str]


class SpanLink(NamedTuple):
    """Another span that this one names."""

    trace_id: str
    span_id: str
    trace_state: str
    attributes: dict[str, str]


class SpanRow(NamedTuple):
    """One span as the Collector's ClickHouse exporter would insert it.

    `timestamp` is UTC nanoseconds, `duration` nanoseconds (0 when the end is missing or before the start). Ids are
    lowercase hex, '' for no parent. Attribute values are text: `12`, `true`, `1.5`, lists and maps as JSON.
    """

    timestamp: int
    trace_id: str
    span_id: str
    parent_span_id: str
    trace_state: str
    span_name: str
    span_kind: str
    service_name: str
    resource_attributes: dict[str, str]
    scope_name: str
    scope_version: str
    span_attributes: dict[str, str]
    duration: int
    status_code: str
    status_message: str
    events: tuple[SpanEvent, ...] = ()
    links: tuple[SpanLink, ...] = ()

    def as_row(self) -> dict[str, Any]:
        """The values by the Collector's column names, in the order of `COLUMNS`; nested columns as parallel lists."""
        events = ([event[at] for event in self.events] for at in range(len(SpanEvent._fields)))
        links = ([link[at] for link in self.links] for at in range(len(SpanLink._fields)))
        values = (*self[: SpanRow._fields.index("events")], *events, *links)
        return dict(zip(COLUMNS, values, strict=True))


@dataclass(frozen=True, slots=True)
class EventRow:
    """One log event of the ledger; identity is (`name`, `emitter`, `seq`), `body` the JSON text of its value, `at_ns` UTC."""

    name: str
    emitter: str
    seq: int
    at_ns: int
    body: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """A span or log record that cannot be taken, `raw` as it came; `event` when it says that it is an event of the ledger."""

    reason: str
    raw: Any
    event: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """What one line or message holds; log records that are not events of the ledger are passed over."""

    spans: list[SpanRow] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)


def parse_line(line: str | bytes) -> Batch:
    """Rows of one line of OTLP/JSON. Raises LineInvalid, and takes nothing of the line, when any part of it is unsound."""
    batch = sift(json_message(line))
    if batch.rejected:
        raise LineInvalid(batch.rejected[0].reason)
    return batch


def json_message(line: str | bytes) -> Any:
    """The JSON value of the text; NaN, infinities and integers too long to be read come as text. Raises LineInvalid when it is no JSON."""
    try:
        return json.loads(line, parse_int=_whole_number, parse_float=_number, parse_constant=str)
    except RecursionError as error:
        raise LineInvalid("nested too deeply") from error
    except ValueError as error:
        raise LineInvalid(f"not JSON: {error}") from error


def _whole_number(digits: str) -> int | str:
    return int(digits) if len(digits) <= _DIGITS else digits


def _number(digits: str) -> float | str:
    value = float(digits)
    return value if math.isfinite(value) else digits


def protobuf_message(data: bytes) -> dict[str, Any]:
    """A binary ExportTraceServiceRequest as the object that OTLP/JSON has for it: ids are hex. Raises LineInvalid."""
    try:
        raw: dict[str, Any] = MessageToDict(ExportTraceServiceRequest.FromString(data))
    except DecodeError as error:
        raise LineInvalid(f"not an ExportTraceServiceRequest: {error}") from error
    scopes = (scope for top in raw.get("resourceSpans", ()) for scope in top.get("scopeSpans", ()))
    for span in (span for scope in scopes for span in scope.get("spans", ())):
        for part in (span, *span.get("links", ())):
            # Protobuf's JSON has bytes as base64; OTLP's JSON has ids as hex.
            part.update(
                {key: base64.b64decode(part[key]).hex() for key in ("traceId", "spanId", "parentSpanId") if key in part}
            )
    return raw


def sift(raw: Any) -> Batch:
    """Rows of an OTLP/JSON object, and each span and log record that is unsound beside them. LineInvalid when it is no OTLP at all."""
    if not isinstance(raw, dict) or not ("resourceSpans" in raw or "resourceLogs" in raw):
        raise LineInvalid("neither resourceSpans nor resourceLogs")
    for key in ("resourceSpans", "resourceLogs"):
        if raw.get(key) is not None and not isinstance(raw[key], list):
            raise LineInvalid(f"{key} is not a list of objects")
    batch = Batch()
    for of_resource in raw.get("resourceSpans") or ():
        known: dict[int, dict[str, str]] = {}
        for resource, scope, span in _leaves(of_resource, "scopeSpans", "spans", batch.rejected):
            try:
                if id(resource) not in known:
                    known[id(resource)] = attributes(resource)
                batch.spans.append(_span(span, known[id(resource)], scope))
            except (LineInvalid, RecursionError) as error:
                batch.rejected.append(Rejected(_why(error), span))
    for of_resource in raw.get("resourceLogs") or ():
        for _, _, record in _leaves(of_resource, "scopeLogs", "logRecords", batch.rejected):
            try:
                if (event := _event(record)) is not None:
                    batch.events.append(event)
            except (LineInvalid, RecursionError) as error:
                batch.rejected.append(Rejected(_why(error), record, event=_is_event(record)))
    return batch


def _is_event(record: dict[str, Any]) -> bool:
    """Whether a log record says that it is an event of the ledger, however unsound it is otherwise."""
    listed = record.get("attributes")
    pairs = [pair for pair in listed if isinstance(pair, dict)] if isinstance(listed, list) else []
    values = [pair.get("value") for pair in pairs if pair.get("key") == "event.name"]
    names = [record.get("eventName"), *(value.get("stringValue") for value in values if isinstance(value, dict))]
    return any(isinstance(name, str) and name.startswith(_OWN_EVENTS) for name in names)


def _leaves(
    of_resource: Any, middle: str, inner: str, rejected: list[Rejected]
) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """Each span or log record with its resource and scope; anything that should be an object and is none is rejected."""

    def opened(whole: Any, named: str, listed: str, what: str) -> tuple[dict[str, Any], list[Any]]:
        if isinstance(whole, dict):
            try:
                return message(whole, named), items(whole, listed, of=object)
            except LineInvalid as error:
                rejected.append(Rejected(error.reason, whole))
        else:
            rejected.append(Rejected(f"one of {what} is not an object", whole))
        return {}, []

    resource, scopes = opened(of_resource, "resource", middle, f"resource{middle.removeprefix('scope')}")
    for of_scope in scopes:
        scope, leaves = opened(of_scope, "scope", inner, middle)
        for leaf in leaves:
            if isinstance(leaf, dict):
                yield resource, scope, leaf
            else:
                rejected.append(Rejected(f"one of {inner} is not an object", leaf))


def _why(error: LineInvalid | RecursionError) -> str:
    return error.reason if isinstance(error, LineInvalid) else "nested too deeply"


def _span(span: dict[str, Any], resource: dict[str, str], scope: dict[str, Any]) -> SpanRow:
    start = instant(span, "startTimeUnixNano")
    if not start:
        raise LineInvalid("span without startTimeUnixNano")
    status = message(span, "status")
    return SpanRow(
        timestamp=start,
        trace_id=hex_id(span, "traceId", 32),
        span_id=hex_id(span, "spanId", 16),
        parent_span_id=hex_id(span, "parentSpanId", 16, optional=True),
        trace_state=text(span, "traceState"),
        span_name=text(span, "name"),
        span_kind=enum_name(span, "kind", "SPAN_KIND_", _KINDS),
        service_name=resource.get("service.name", ""),
        resource_attributes=resource,
        scope_name=text(scope, "name"),
        scope_version=text(scope, "version"),
        span_attributes=attributes(span),
        duration=max(0, instant(span, "endTimeUnixNano") - start),
        status_code=enum_name(status, "code", "STATUS_CODE_", _STATUS),
        status_message=text(status, "message"),
        events=tuple(
            SpanEvent(instant(e, "timeUnixNano"), text(e, "name"), attributes(e)) for e in items(span, "events")
        ),
        links=tuple(
            SpanLink(hex_id(k, "traceId", 32), hex_id(k, "spanId", 16), text(k, "traceState"), attributes(k))
            for k in items(span, "links")
        ),
    )


def _event(record: dict[str, Any]) -> EventRow | None:
    """The ledger's event in this log record, None when it is somebody else's record."""
    attrs = attributes(record)
    name = text(record, "eventName") or attrs.get("event.name", "")
    if not name.startswith(_OWN_EVENTS):
        return None
    emitter, seq = attrs.get(ATTR_EMITTER, ""), attrs.get(ATTR_SEQ, "")
    if not emitter or not (seq.isascii() and seq.isdigit() and len(seq) < 19):
        raise LineInvalid(f"event {name} without identity: {ATTR_EMITTER}={emitter!r}, {ATTR_SEQ}={seq!r}")
    at_ns = instant(record, "timeUnixNano") or instant(record, "observedTimeUnixNano")
    body = message(record, "body").get("stringValue")
    if not at_ns or not isinstance(body, str):
        raise LineInvalid(f"event {name} {emitter}:{seq} without timeUnixNano or without a text body")
    return EventRow(name, emitter, int(seq), at_ns, whole(body))
