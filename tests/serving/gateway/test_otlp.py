"""Spans of other services: what is taken, what is refused, and that nobody can write a bill this way."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from serving.attempt.limits import Limits
from telemetry.names import Attr, EventName
from telemetry.otlp_decode import SpanRow, parse_line, protobuf_message, sift
from telemetry.otlp_encode import event_line

Run = Callable[..., None]
PATH = "/v1/traces"
TRACE, SPAN, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"


def message(**attributes: str) -> dict[str, Any]:
    span = {
        "traceId": TRACE,
        "spanId": SPAN,
        "parentSpanId": PARENT,
        "name": "rerank",
        "kind": 3,
        "startTimeUnixNano": "1790000000000000000",
        "endTimeUnixNano": "1790000000250000000",
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "reranker"}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "s"}, "spans": [span]}]}]}


def protobuf(**attributes: str) -> bytes:
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "reranker"
    scope = resource.scope_spans.add()
    scope.scope.name = "s"
    span = scope.spans.add(
        trace_id=bytes.fromhex(TRACE),
        span_id=bytes.fromhex(SPAN),
        parent_span_id=bytes.fromhex(PARENT),
        name="rerank",
        kind=3,
    )
    span.start_time_unix_nano, span.end_time_unix_nano = 1790000000000000000, 1790000000250000000
    for key, value in attributes.items():
        span.attributes.add(key=key).value.string_value = value
    return bytes(request.SerializeToString())


async def send(bench: Any, body: bytes, kind: str = "application/json", **headers: str) -> httpx.Response:
    async with bench.client() as client:
        reply: httpx.Response = await client.post(PATH, content=body, headers={"content-type": kind, **headers})
        return reply


def sent(bench: Any) -> list[SpanRow]:
    return [span for span in bench.spans() if span.service_name == "reranker"]


def test_json_protobuf_and_gzip_become_the_same_durable_line(run_bench: Run) -> None:
    async def test(bench: Any) -> None:
        raw = json.dumps(message(color="blue"), indent=2).encode()
        bodies = [
            (raw, "application/json; charset=utf-8", {}),
            (protobuf(color="blue"), "application/x-protobuf", {}),
            (gzip.compress(protobuf(color="blue"), mtime=0), "application/x-protobuf", {"content-encoding": "gzip"}),
        ]
        for number, (body, kind, headers) in enumerate(bodies):
            answer = await send(bench, body, kind, **headers)
            assert (answer.status_code, answer.headers["content-type"]) == (200, kind.partition(";")[0])
            assert len(sent(bench)) == number + 1, "on disk before the sender is told so"
        assert answer.content == b""
        first, *others = sent(bench)
        assert others == [first, first]
        assert first == sift(protobuf_message(bodies[1][0])).spans[0]
        assert (first.trace_id, first.parent_span_id, first.span_attributes) == (TRACE, PARENT, {"color": "blue"})

    run_bench(test)


def test_a_usage_record_or_an_event_of_the_ledger_cannot_be_sent_this_way(run_bench: Run) -> None:
    async def test(bench: Any) -> None:
        forged = {Attr.USAGE_RECORD: '{"schema":"loraledger.usage/1"}', "color": "blue"}
        both = message(**forged) | json.loads(event_line(EventName.OPENED, "{}", 1, {}, "gw-1", 0))
        answer = await send(bench, json.dumps(both).encode())
        assert answer.status_code == 200
        assert "taken out" in answer.json()["partialSuccess"]["errorMessage"]
        answer = await send(bench, protobuf(**forged), "application/x-protobuf")
        assert "taken out" in ExportTraceServiceResponse.FromString(answer.content).partial_success.error_message
        assert [span.span_attributes for span in sent(bench)] == [{"color": "blue"}] * 2
        assert bench.records() == []
        assert all(not parse_line(line).events for line in bench.lines())

    run_bench(test)


@pytest.mark.parametrize(
    ("body", "kind", "headers", "status"),
    [
        (b"{", "application/json", {}, 400),
        (b"[]", "application/json", {}, 400),
        (b'{"resourceSpans": {}}', "application/json", {}, 400),
        (b'{"resourceSpans": 3}', "application/json", {}, 400),
        (b"[" * 100_000, "application/json", {}, 413),
        (b'{"resourceSpans":' + b"[" * 7000, "application/json", {}, 400),
        (b"\xff\xff", "application/x-protobuf", {}, 400),
        (b"not gzip", "application/json", {"content-encoding": "gzip"}, 400),
        (gzip.compress(b" " * 9000, mtime=0), "application/json", {"content-encoding": "gzip"}, 400),
        (
            gzip.compress(json.dumps(message()).encode(), mtime=0)[:-9],
            "application/json",
            {"content-encoding": "gzip"},
            400,
        ),
        (b"{}", "application/json", {"content-encoding": "br"}, 400),
        (b"{}", "text/plain", {}, 415),
        (b" " * 9000, "application/json", {}, 413),
    ],
)
def test_what_is_no_trace_message_is_refused_whole(
    body: bytes, kind: str, headers: dict[str, str], status: int, run_bench: Run
) -> None:
    async def test(bench: Any) -> None:
        answer = await send(bench, body, kind, **headers)
        assert answer.status_code == status
        if kind == "application/x-protobuf":
            assert answer.content[:2] == b"\x08\x03"
        else:
            assert answer.json()["code"] == 3
            assert answer.json()["message"]
        assert (bench.spool.lines, bench.spool.held_bytes) == (0, 0)

    run_bench(test, limits=Limits(body_bytes=8000))


def test_a_bad_span_is_rejected_with_a_count_and_its_neighbours_arrive(run_bench: Run) -> None:
    def spans_of(raw: dict[str, Any]) -> list[Any]:
        return raw["resourceSpans"][0]["scopeSpans"][0]["spans"]  # type: ignore[no-any-return]

    async def test(bench: Any) -> None:
        raw = message(color="blue")
        (good,) = spans_of(raw)
        bad: list[Any] = [
            good | {"startTimeUnixNano": "31536000000000000"},
            good | {"startTimeUnixNano": "9000000000000000000"},
            good | {"startTimeUnixNano": 10**300},
            good | {"traceId": "abc"},
            good | {"spanId": "0" * 16},
            good | {"attributes": 7},
            good | {"attributes": [{"key": "k", "value": "bare"}]},
            good | {"attributes": [{"key": f"k{i}", "value": {"intValue": i}} for i in range(600)]},
            good | {"events": [{"timeUnixNano": "1", "name": "e"}]},
            None,
            "span",
        ]
        spans_of(raw)[:] = [*bad[:5], good, *bad[5:]]
        answer = await send(bench, json.dumps(raw).encode())
        assert answer.status_code == 200
        partial = answer.json()["partialSuccess"]
        assert partial["rejectedSpans"] == str(len(bad))
        assert "before 2020" in partial["errorMessage"] or "not an object" in partial["errorMessage"]
        assert [span.span_attributes for span in sent(bench)] == [{"color": "blue"}]
        request = ExportTraceServiceRequest.FromString(protobuf())
        request.resource_spans[0].scope_spans[0].spans.add(trace_id=b"short", span_id=b"x", start_time_unix_nano=1)
        answer = await send(bench, request.SerializeToString(), "application/x-protobuf")
        assert ExportTraceServiceResponse.FromString(answer.content).partial_success.rejected_spans == 1
        assert len(sent(bench)) == 2

    run_bench(test)


def test_numbers_that_json_cannot_say_are_no_error(run_bench: Run) -> None:
    async def test(bench: Any) -> None:
        raw = json.dumps(message()).replace(
            '"attributes": []', '"attributes": [{"key": "n", "value": {"doubleValue": NaN}}]'
        )
        assert (await send(bench, raw.replace("NaN", "1e999").encode())).json() == {}
        assert (await send(bench, raw.encode())).json() == {}
        assert [span.span_attributes["n"] for span in sent(bench)] == ["Infinity", "NaN"]

    run_bench(test)


def test_nothing_to_take_is_no_line(run_bench: Run) -> None:
    async def test(bench: Any) -> None:
        assert (await send(bench, b"{}")).json() == {}
        assert (await send(bench, b"", "application/x-protobuf")).status_code == 200
        assert (bench.spool.lines, bench.spool.held_bytes) == (0, 0)

    run_bench(test)


def test_a_callers_trace_goes_on_in_our_spans_and_in_the_engine(
    run_bench: Run, ask: Callable[..., dict[str, Any]]
) -> None:
    async def test(bench: Any) -> None:
        caller = f"00-{TRACE}-{SPAN}-01"
        assert (await bench.post(ask(model="coder"), traceparent=caller)).status_code == 200
        await send(bench, json.dumps(message()).encode())
        root, client, *_ = [span for span in bench.spans() if span.service_name == "loraledger"]
        assert (root.trace_id, root.parent_span_id, root.span_kind) == (TRACE, SPAN, "Server")
        assert (client.parent_span_id, client.span_kind) == (root.span_id, "Client")
        ((_, headers, _),) = bench.engine.seen
        assert headers["traceparent"] == f"00-{TRACE}-{client.span_id}-01"
        assert {span.trace_id for span in bench.spans()} == {TRACE}, "the caller's own spans are in the same trace"
        await bench.post(ask(model="coder"), traceparent="00-nonsense")
        assert bench.engine.seen[-1][1]["traceparent"].startswith("00-")
        assert "nonsense" not in bench.engine.seen[-1][1]["traceparent"]

    run_bench(test)


def test_only_operators_may_send(run_bench: Run) -> None:
    async def test(bench: Any) -> None:
        body = json.dumps(message()).encode()
        assert (await send(bench, body)).status_code == 404
        assert (await send(bench, body, authorization="Bearer key-clinic")).status_code == 404
        assert (await send(bench, body, authorization="Bearer op")).status_code == 200
        assert (await bench.get(PATH)).status_code == 405

    run_bench(test, operator_token="op")


def test_a_disk_that_refuses_sends_the_sender_away_and_keeps_the_memory_for_records(run_bench: Run) -> None:
    async def test(bench: Any) -> None:
        bench.disk.refuse = True
        first = await send(bench, json.dumps(message()).encode())
        assert (first.status_code, first.headers["retry-after"], first.json()["code"]) == (503, "5", 14)
        held = bench.spool.held_bytes
        for _ in range(3):
            assert (await send(bench, json.dumps(message()).encode())).status_code == 503
        assert bench.spool.held_bytes == held, "nothing more is kept"
        bench.disk.refuse = False
        while bench.spool.refused:
            await asyncio.sleep(0.01)
        assert (await send(bench, json.dumps(message()).encode())).status_code == 200

    run_bench(test)
