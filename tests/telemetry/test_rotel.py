"""Our rows against those of a real OTLP collector with a ClickHouse exporter (rotel): the same spans, the same `otel_traces`."""

from __future__ import annotations

import http.server
import importlib.util
import json
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from billing.store.clickhouse import Ledger
from billing.store.intake.ingest import ingest
from catalog.durations import QUARTER_NS
from catalog.model import Catalog
from telemetry.forward import Both, Forwarder
from telemetry.names import Attr, SpanName
from telemetry.otlp_decode import COLUMNS
from telemetry.otlp_receive import received
from telemetry.spool import Spool, read_spool
from telemetry.tracing import Tracing
from telemetry.usage import ErrorType, Slice, Status, UsageRecord

T0 = 1_790_000_000_000_000_000
T0 -= T0 % QUARTER_NS
FOUND = importlib.util.find_spec("rotel")
AGENT = Path(FOUND.origin).with_name("rotel-agent") if FOUND is not None and FOUND.origin else None
STRUCTURE = (
    "Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String, TraceState String, SpanName String, SpanKind String, "
    "ServiceName String, ResourceAttributes Map(String, String), ScopeName String, ScopeVersion String, SpanAttributes Map(String, String), "
    "Duration UInt64, StatusCode String, StatusMessage String, `Events.Timestamp` Array(DateTime64(9)), `Events.Name` Array(String), "
    "`Events.Attributes` Array(Map(String, String)), `Links.TraceId` Array(String), `Links.SpanId` Array(String), "
    "`Links.TraceState` Array(String), `Links.Attributes` Array(Map(String, String))"
)


def runs(agent: Path | None) -> bool:
    """Whether the binary finds its Python library."""
    return agent is not None and subprocess.run([agent, "--version"], capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not runs(AGENT), reason="rotel (or the shared library of its Python) is not installed")


class Inserts(http.server.BaseHTTPRequestHandler):
    """A ClickHouse that keeps what it is asked to insert."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = b""
        if self.headers.get("transfer-encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append((parse_qs(urlsplit(self.path).query)["query"][0], body))  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """Address of a rotel that writes to a loopback ClickHouse, and what it wrote there."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Inserts)
    server.got = []  # type: ignore[attr-defined]
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    port = free_port()
    command = [
        str(AGENT), "start", "--otlp-http-endpoint", f"127.0.0.1:{port}", "--otlp-grpc-endpoint", f"127.0.0.1:{free_port()}",
        "--exporter", "clickhouse", "--clickhouse-exporter-endpoint", f"http://127.0.0.1:{server.server_port}",
        "--clickhouse-exporter-compression", "none", "--batch-timeout", "100ms",
    ]  # fmt: skip
    with (tmp_path / "rotel.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        until(lambda: answers(port), lambda: (tmp_path / "rotel.log").read_text())
        yield f"http://127.0.0.1:{port}", server.got  # type: ignore[attr-defined]
    finally:
        process.terminate()
        process.wait(20)
        server.shutdown()
        thread.join()
        server.server_close()


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def until(true: Callable[[], bool], say: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline, say()
        time.sleep(0.02)


def attempt(tracing: Tracing, seq: int, status: Status) -> None:
    """One attempt with every span of the tree."""
    trace = tracing.attempt("POST", "/v1/chat/completions", f"00-{seq + 1:032x}-b7ad6b7169203331-01", T0)
    trace.child(SpanName.ROUTE, T0 + 1, T0 + 2, {Attr.ROUTE_RULE: "default"})
    trace.client("chat", "legal")
    trace.child(SpanName.ADAPTER_LOAD, T0 + 3, T0 + 300, {Attr.LOAD_READ_NS: 7})
    trace.child(SpanName.ENGINE, T0 + 300, T0 + 800, {Attr.ENGINE: "e", Attr.QUEUE_NS: 5})
    trace.set(Attr.FINISH_REASONS, ["stop", "length"])
    trace.set(Attr.TIME_TO_FIRST_CHUNK, 0.25)
    trace.set(Attr.REQUEST_STREAM, True)
    trace._root.add_event("first token", {"text": "é – \u4f60", "n": 3}, T0 + 400)
    failed = status is not Status.OK
    record = UsageRecord(
        "gw-0123456789ab", seq, f"r{seq}", "acme", T0, T0 + 900, status, trace_id=trace.trace_id, adapter="legal", engine="e",
        error_type=ErrorType.OOM if failed else None, input_tokens=10, cached_tokens=4, slices=(Slice(T0, 5, 2, 0),),
    )  # fmt: skip
    trace.close(record, 500 if failed else 200, T0 + 900).result(10)


def foreign() -> bytes:
    """What another service may send: every kind, links, trace state, values of every type, no end."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "reranker"
    resource.resource.attributes.add(key="host.cpus").value.int_value = 64
    scope = resource.scope_spans.add()
    scope.scope.name, scope.scope.version = "lib", "1.2"
    for kind in range(6):
        span = scope.spans.add(trace_id=b"\x0a" * 16, span_id=bytes([kind + 1]) * 8, name=f"kind {kind}", kind=kind)
        span.start_time_unix_nano, span.end_time_unix_nano = T0 + kind, T0 + 1000
        span.status.code = kind % 3
        span.status.message = "m" * kind
        span.trace_state = "a=1,b=2" if kind else ""
    for key, value in (
        ("i", -(2**63)),
        ("whole", 2.0),
        ("f", 1.5),
        ("tiny", 1e-7),
        ("t", True),
        ("s", ""),
        ("uni", "\u4f60"),
    ):
        one = span.attributes.add(key=key).value
        field = {bool: "bool_value", int: "int_value", float: "double_value", str: "string_value"}[type(value)]
        setattr(one, field, value)
    link = span.links.add(trace_id=b"\x0b" * 16, span_id=b"\x0c" * 8, trace_state="c=3")
    link.attributes.add(key="why").value.string_value = "batch"
    return bytes(request.SerializeToString())


def rows(ledger: Ledger, source: str) -> dict[tuple[str, str], dict[str, Any]]:
    columns = ", ".join(f"`{name}`" for name in COLUMNS)
    found = ledger.ask(f"SELECT {columns} FROM {source} ORDER BY TraceId, SpanId").dicts()
    return {(row["TraceId"], row["SpanId"]): row for row in found}


def as_collector(row: dict[str, Any]) -> dict[str, Any]:
    """The row with rotel's three deviations from the OpenTelemetry Collector undone; our rows pass unchanged.

    It writes a list as the OTLP object that carried it (a JSON array there), a whole double as `2.0` (`2` there), and the
    kind of a consumer as `client`.
    """
    attributes = dict(row["SpanAttributes"])
    if attributes.get(Attr.FINISH_REASONS, "").startswith("{"):
        plain = [value["stringValue"] for value in json.loads(attributes[Attr.FINISH_REASONS])["values"]]
        attributes[Attr.FINISH_REASONS] = json.dumps(plain, separators=(",", ":"))
    if "whole" in attributes:
        attributes["whole"] = attributes["whole"].removesuffix(".0")
    kind = "Consumer" if row["SpanKind"] == "client" else row["SpanKind"]
    return {**row, "SpanAttributes": attributes, "SpanKind": kind}


def test_a_real_collector_writes_the_same_rows_as_our_own_writer(
    ledger: Ledger, collector: tuple[str, list[tuple[str, bytes]]], example: Catalog, now: datetime, tmp_path: Path
) -> None:
    address, inserts = collector
    spool, forwarder = Spool(tmp_path / "spool"), Forwarder(address)
    tracing = Tracing(Both(spool, forwarder), {"service.instance.id": "i1"})
    attempt(tracing, 0, Status.OK)
    attempt(tracing, 1, Status.SERVER_ERROR)
    body = foreign()
    taken = received(body, protobuf=True, now_ns=T0).line
    assert taken is not None
    spool.append(taken).result(10)
    spool.close()
    sent = httpx.post(
        f"{address}/v1/traces", content=body, headers={"content-type": "application/x-protobuf"}, timeout=20
    )
    assert sent.status_code == 200
    until(lambda: forwarder.sent == 2)
    forwarder.close()

    ingest(ledger, [tmp_path / "spool"], example, now)
    ours = rows(ledger, "otel_traces")
    assert len(ours) == 2 * 5 + 6
    binary = tmp_path / "rotel.bin"

    def theirs() -> dict[tuple[str, str], dict[str, Any]]:
        binary.write_bytes(b"".join(body for _, body in inserts))
        return rows(ledger, f"file('{binary}', 'RowBinary', '{STRUCTURE}')") if inserts else {}

    until(lambda: len(theirs()) == len(ours), lambda: f"{len(theirs())} of {len(ours)} rows came")
    for query, _ in inserts:
        listed = query[query.index("(") + 1 : query.index(")")]
        assert listed.split(",") == list(COLUMNS)
    for identity, row in theirs().items():
        assert as_collector(ours[identity]) == ours[identity]
        assert as_collector(row) == ours[identity]
    assert len(list(read_spool(tmp_path / "spool"))) == 3
