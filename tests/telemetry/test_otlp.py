from __future__ import annotations

import base64
import contextlib
import json
import math
from typing import Any

import pytest
from google.protobuf import json_format  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags, TraceState
from opentelemetry.trace.status import Status, StatusCode

from telemetry.errors import LineInvalid
from telemetry.otlp_decode import COLUMNS, EventRow, parse_line, protobuf_message, sift
from telemetry.otlp_encode import event_line, span_line, spans_line

T0 = 1_790_000_000_000_000_000
TRACE, SPAN, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"


def context(span_id: str, state: TraceState | None = None, remote: bool = False) -> SpanContext:
    return SpanContext(int(TRACE, 16), int(span_id, 16), remote, TraceFlags(1), state)


def full_span() -> ReadableSpan:
    return ReadableSpan(
        name="POST /v1/chat/completions",
        context=context(SPAN, TraceState([("a", "1")])),
        parent=context(PARENT, remote=True),
        resource=Resource({"service.name": "loraledger", "n": 3}),
        attributes={"s": "é😀", "i": 12, "b": True, "f": 1.5, "big": -(2**63), "list": ["a", "b"]},
        events=[Event("first token", {"n": 1}, T0 + 5)],
        links=[Link(context(PARENT, TraceState([("k", "v")])), {"why": "retry"})],
        kind=SpanKind.SERVER,
        status=Status(StatusCode.ERROR, "boom"),
        start_time=T0,
        end_time=T0 + 123,
        instrumentation_scope=InstrumentationScope("loraledger", "0.1"),
    )


ROW = {
    "Timestamp": T0,
    "TraceId": TRACE,
    "SpanId": SPAN,
    "ParentSpanId": PARENT,
    "TraceState": "a=1",
    "SpanName": "POST /v1/chat/completions",
    "SpanKind": "Server",
    "ServiceName": "loraledger",
    "ResourceAttributes": {"service.name": "loraledger", "n": "3"},
    "ScopeName": "loraledger",
    "ScopeVersion": "0.1",
    "SpanAttributes": {
        "s": "é😀",
        "i": "12",
        "b": "true",
        "f": "1.5",
        "big": "-9223372036854775808",
        "list": '["a","b"]',
    },
    "Duration": 123,
    "StatusCode": "Error",
    "StatusMessage": "boom",
    "Events.Timestamp": [T0 + 5],
    "Events.Name": ["first token"],
    "Events.Attributes": [{"n": "1"}],
    "Links.TraceId": [TRACE],
    "Links.SpanId": [PARENT],
    "Links.TraceState": ["k=v"],
    "Links.Attributes": [{"why": "retry"}],
}


def with_base64_ids(message: Any) -> Any:
    """What Protobuf's own JSON reader wants: bytes as base64."""
    if isinstance(message, dict):
        ids = {"traceId", "spanId", "parentSpanId"}
        return {
            key: base64.b64encode(bytes.fromhex(value)).decode() if key in ids else with_base64_ids(value)
            for key, value in message.items()
        }
    return [with_base64_ids(part) for part in message] if isinstance(message, list) else message


def test_a_span_comes_back_as_the_collectors_row() -> None:
    (row,) = parse_line(spans_line([full_span()])).spans
    assert row.as_row() == ROW
    assert tuple(row.as_row()) == COLUMNS


def test_protobuf_reads_our_lines_and_its_binary_form_gives_the_same_rows() -> None:
    line = spans_line([full_span()])
    request = json_format.ParseDict(with_base64_ids(json.loads(line)), ExportTraceServiceRequest())
    span = request.resource_spans[0].scope_spans[0].spans[0]
    assert (span.trace_id.hex(), span.kind, span.status.code, span.flags) == (TRACE, 2, 2, 0x301)
    assert sift(protobuf_message(request.SerializeToString())) == parse_line(line)
    logs = json.loads(event_line("loraledger.usage.opened", "{}", T0, {"x": 1}, "gw-1", 0))
    record = json_format.ParseDict(logs, ExportLogsServiceRequest()).resource_logs[0].scope_logs[0].log_records[0]
    assert (record.event_name, record.body.string_value, record.time_unix_nano) == ("loraledger.usage.opened", "{}", T0)


def test_spans_of_one_attempt_share_one_line_and_one_resource() -> None:
    resource = Resource({"service.name": "loraledger"})
    scope = InstrumentationScope("loraledger")
    spans = [
        ReadableSpan(
            name=f"s{n}",
            context=context(f"{n + 1:016x}"),
            resource=resource,
            instrumentation_scope=scope,
            start_time=T0,
            end_time=T0,
        )
        for n in range(3)
    ]
    line = spans_line(spans)
    assert "\n" not in line
    assert len(json.loads(line)["resourceSpans"][0]["scopeSpans"]) == 1
    rows = parse_line(line).spans
    assert [(row.span_name, row.parent_span_id, row.span_kind, row.status_code) for row in rows] == [
        (f"s{n}", "", "Internal", "Unset") for n in range(3)
    ]


def test_a_span_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match="no context, start or end"):
        spans_line([ReadableSpan(name="open", context=context(SPAN), start_time=T0)])


def test_a_plain_span_reads_like_one_of_the_sdk() -> None:
    line = span_line(TRACE, SPAN, "", "POST /x", T0, T0 + 1, {"k": 1}, {"service.name": "loraledger"})
    (row,) = parse_line(line).spans
    assert (row.span_id, row.parent_span_id, row.span_kind, row.duration) == (SPAN, "", "Server", 1)
    assert (row.service_name, row.span_attributes) == ("loraledger", {"k": "1"})


@given(st.text(), st.text(min_size=1), st.integers(0, 10**18 - 1), st.integers(1, 2**63 - 1))
def test_events_come_back_whole(body: str, emitter: str, seq: int, at_ns: int) -> None:
    line = event_line("loraledger.meter.window", body, at_ns, {"extra": True}, emitter, seq)
    assert line.isascii()
    assert "\n" not in line
    batch = parse_line(line)
    assert batch.spans == []
    assert batch.events == [EventRow("loraledger.meter.window", emitter, seq, at_ns, body)]


def test_a_lone_surrogate_never_reaches_a_reader() -> None:
    batch = parse_line(event_line("loraledger.x", '{"a":"\ud800"}', T0, None, "gw-1", 0))
    batch.events[0].body.encode()
    foreign = event_line("loraledger.x", "BODY", T0, None, "gw-1", 0).replace("BODY", "\\udc00")
    parse_line(foreign).events[0].body.encode()


@pytest.mark.parametrize(("emitter", "seq"), [("", 0), ("gw-1", -1)])
def test_an_event_without_identity_is_not_written(emitter: str, seq: int) -> None:
    with pytest.raises(ValueError, match="identity"):
        event_line("loraledger.x", "{}", T0, None, emitter, seq)


def foreign(**changes: Any) -> str:
    span: dict[str, Any] = {"traceId": TRACE, "spanId": SPAN, "name": "n", "startTimeUnixNano": str(T0)}
    span |= changes
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})


def value(any_value: Any) -> str:
    attribute = {"key": "k", "value": any_value}
    return parse_line(foreign(attributes=[attribute])).spans[0].span_attributes["k"]


@pytest.mark.parametrize(
    ("any_value", "text"),
    [
        ({"stringValue": "x"}, "x"),
        ({"boolValue": False}, "false"),
        ({"intValue": "12"}, "12"),
        ({"intValue": 12}, "12"),
        ({"doubleValue": 1.5}, "1.5"),
        ({"doubleValue": 1}, "1"),
        ({"doubleValue": -0.0}, "-0"),
        ({"doubleValue": 1e20}, "100000000000000000000"),
        ({"doubleValue": 1e21}, "1e+21"),
        ({"doubleValue": 1.5e-7}, "1.5e-7"),
        ({"doubleValue": 1e-6}, "0.000001"),
        ({"doubleValue": 1e-300}, "1e-300"),
        ({"doubleValue": "NaN"}, "NaN"),
        ({"doubleValue": "-Infinity"}, "-Infinity"),
        ({"bytesValue": "AAE="}, "AAE="),
        ({"arrayValue": {"values": [{"intValue": "1"}, {"stringValue": "é"}, {}]}}, '[1,"é",null]'),
        ({"arrayValue": {}}, "[]"),
        ({"arrayValue": {"values": [{"doubleValue": "NaN"}]}}, '["NaN"]'),
        ({"kvlistValue": {"values": [{"key": "a", "value": {"boolValue": True}}]}}, '{"a":true}'),
        ({}, ""),
        (None, ""),
    ],
)
def test_every_kind_of_value_becomes_the_collectors_text(any_value: Any, text: str) -> None:
    assert value(any_value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_text_of_a_double_is_exact(number: float) -> None:
    text = value({"doubleValue": number})
    assert float(text) == number
    assert math.copysign(1, float(text)) == math.copysign(1, number)


@pytest.mark.parametrize(
    ("changes", "column", "wanted"),
    [
        ({"kind": "SPAN_KIND_CLIENT"}, "SpanKind", "Client"),
        ({"kind": 3}, "SpanKind", "Client"),
        ({"kind": 99}, "SpanKind", "Unspecified"),
        ({"status": {"code": "STATUS_CODE_OK"}}, "StatusCode", "Ok"),
        ({"status": {"code": 2}}, "StatusCode", "Error"),
        ({"status": None}, "StatusCode", "Unset"),
        ({"startTimeUnixNano": T0}, "Timestamp", T0),
        ({"endTimeUnixNano": T0 - 1}, "Duration", 0),
        ({"endTimeUnixNano": str(T0 + 7)}, "Duration", 7),
        ({"traceId": TRACE.upper()}, "TraceId", TRACE),
        ({"parentSpanId": "0" * 16}, "ParentSpanId", ""),
    ],
)
def test_other_emitters_are_understood(changes: dict[str, Any], column: str, wanted: Any) -> None:
    assert parse_line(foreign(**changes)).spans[0].as_row()[column] == wanted


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "neither resourceSpans nor resourceLogs"),
        ('{"resourceMetrics":[]}', "neither"),
        ('{"resourceSpans":{}}', "resourceSpans is not a list"),
        (foreign(traceId="abc"), "traceId 'abc' is not 32 hex digits"),
        (foreign(traceId="0" * 32), "traceId"),
        (foreign(spanId=""), "spanId '' is not 16 hex digits"),
        (foreign(spanId=7), "spanId 7 is not text"),
        (foreign(parentSpanId="zz"), "parentSpanId"),
        (foreign(startTimeUnixNano=None), "without startTimeUnixNano"),
        (foreign(startTimeUnixNano="soon"), "not a 64-bit integer"),
        (foreign(startTimeUnixNano=float(T0)), "not a 64-bit integer"),
        (foreign(startTimeUnixNano=str(2**63)), "not an instant"),
        (foreign(attributes=[{"key": "k", "value": {"intValue": True}}]), "not a 64-bit integer"),
        (foreign(attributes=[{"key": "k", "value": "bare"}]), "not an AnyValue"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_an_unsound_line_says_why(line: str, reason: str) -> None:
    with pytest.raises(LineInvalid) as caught:
        parse_line(line)
    assert reason in caught.value.reason


def logs(record: dict[str, Any]) -> str:
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]})


def test_somebody_elses_log_records_are_counted_not_taken() -> None:
    batch = parse_line(logs({"body": {"stringValue": "hello"}, "timeUnixNano": str(T0)}))
    assert (batch.events, batch.rejected) == ([], [])


@pytest.mark.parametrize("missing", ["attributes", "timeUnixNano", "body"])
def test_an_event_of_ours_without_identity_time_or_body_is_refused(missing: str) -> None:
    line = json.loads(event_line("loraledger.x", "{}", T0, None, "gw-1", 3))
    record = line["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]
    del record[missing]
    record.pop("observedTimeUnixNano")
    with pytest.raises(LineInvalid, match=r"loraledger\.x"):
        parse_line(logs(record))


KEYS = st.sampled_from(
    [
        "resourceSpans",
        "resourceLogs",
        "scopeSpans",
        "scopeLogs",
        "spans",
        "logRecords",
        "resource",
        "attributes",
        "key",
        "value",
        "traceId",
        "status",
        "arrayValue",
        "values",
        "kind",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["resourceSpans", "resourceLogs"]), st.lists(st.dictionaries(KEYS, JSON))))
def test_no_json_breaks_the_reader(message: Any) -> None:
    with contextlib.suppress(LineInvalid):
        parse_line(json.dumps(message))


@given(st.binary(max_size=60))
def test_no_bytes_break_the_protobuf_reader(data: bytes) -> None:
    with contextlib.suppress(LineInvalid):
        sift(protobuf_message(data))
