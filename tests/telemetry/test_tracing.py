from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import Future

import pytest
from opentelemetry import trace as process_wide
from opentelemetry.sdk.trace import ReadableSpan

from catalog.durations import QUARTER_NS
from telemetry.errors import TraceClosed
from telemetry.names import Attr, SpanName
from telemetry.otlp_decode import SpanRow, parse_line
from telemetry.tracing import AttemptTrace, Tracing
from telemetry.usage import ErrorType, Slice, Status, UsageRecord

T0 = 1_790_000_000_000_000_000
T0 -= T0 % QUARTER_NS
INCOMING = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Lines(list[str]):
    def append(self, line: str) -> Future[None]:  # type: ignore[override]
        super().append(line)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def rows(self) -> list[SpanRow]:
        (line,) = self
        return parse_line(line).spans


def record(**changes: object) -> UsageRecord:
    values: dict[str, object] = {
        "emitter": "gw-0123456789ab",
        "seq": 7,
        "request_id": "r1",
        "tenant": "acme",
        "arrival_ns": T0,
        "finished_ns": T0 + 900,
        "status": Status.OK,
        "adapter": "legal",
        "engine": "e1",
        "input_tokens": 10,
        "cached_tokens": 4,
        "output_tokens_delivered": 3,
        "slices": (Slice(T0, 5, 2, 0), Slice(T0 + QUARTER_NS, 6, 1, 1)),
    }
    return UsageRecord(**(values | changes))  # type: ignore[arg-type]


def run(trace: AttemptTrace, closing: UsageRecord, http_status: int | None = 200) -> None:
    trace.child(SpanName.ROUTE, T0 + 1, T0 + 2, {Attr.ROUTE_RULE: "default", Attr.ROUTE_REASON: None})
    trace.client("chat", "legal")
    trace.child(SpanName.ENGINE, T0 + 3, T0 + 800, {Attr.COLD_START: False})
    trace.set(Attr.RESPONSE_ID, "cmpl-1")
    trace.close(closing, http_status, T0 + 900).result(1)


def test_one_attempt_is_one_line_with_its_spans_nested_and_the_record_on_the_root() -> None:
    lines = Lines()
    trace = Tracing(lines, {"service.instance.id": "i1"}).attempt("POST", "/v1/chat/completions", None, T0)
    run(trace, record())
    root, client, route, engine = lines.rows()
    assert [(s.span_name, s.span_kind) for s in (root, client, route, engine)] == [
        ("POST /v1/chat/completions", "Server"),
        ("chat legal", "Client"),
        ("route", "Internal"),
        ("engine", "Internal"),
    ]
    assert {s.trace_id for s in lines.rows()} == {trace.trace_id}
    assert [s.parent_span_id for s in (root, client, route, engine)] == [
        "",
        root.span_id,
        client.span_id,
        client.span_id,
    ]
    assert [(s.timestamp - T0, s.duration) for s in (root, client, route, engine)] == [
        (0, 900),
        (0, 900),
        (1, 1),
        (3, 797),
    ]
    assert root.resource_attributes == {"service.name": "loraledger", "service.instance.id": "i1"}
    assert UsageRecord.from_json(root.span_attributes[Attr.USAGE_RECORD]) == record()
    readable = {k: v for k, v in root.span_attributes.items() if k != Attr.USAGE_RECORD}
    assert readable == {
        Attr.HTTP_METHOD: "POST",
        Attr.HTTP_ROUTE: "/v1/chat/completions",
        Attr.URL_PATH: "/v1/chat/completions",
        Attr.HTTP_STATUS: "200",
        Attr.OPERATION: "chat",
        Attr.PROVIDER: "vllm",
        Attr.REQUEST_MODEL: "legal",
        Attr.RESPONSE_ID: "cmpl-1",
        Attr.TENANT: "acme",
        Attr.ADAPTER: "legal",
        Attr.ENGINE: "e1",
        Attr.REQUEST_ID: "r1",
        Attr.STATUS: "ok",
        Attr.INPUT_TOKENS: "10",
        Attr.CACHED_TOKENS: "4",
        Attr.OUTPUT_TOKENS: "3",
        Attr.BASE_NS: "11",
        Attr.ADAPTER_NS: "3",
    }
    assert client.span_attributes[Attr.OUTPUT_TOKENS] == "3"
    assert Attr.USAGE_RECORD not in client.span_attributes
    assert route.span_attributes == {Attr.ROUTE_RULE: "default"}
    assert {s.status_code for s in lines.rows()} == {"Unset"}


@pytest.mark.parametrize(
    ("closing", "error_type"),
    [
        (record(status=Status.SERVER_ERROR, error_type=ErrorType.OOM), "oom"),
        (record(status=Status.TIMEOUT), "timeout"),
        (record(status=Status.REJECTED, error_type=ErrorType.REJECTED, slices=()), "rejected"),
    ],
)
def test_an_attempt_that_failed_says_why(closing: UsageRecord, error_type: str) -> None:
    lines = Lines()
    run(Tracing(lines).attempt("POST", "/v1/completions", None, T0), closing, 500)
    root, client, route, _ = lines.rows()
    assert (root.status_code, client.status_code, route.status_code) == ("Error", "Error", "Unset")
    assert root.span_attributes[Attr.ERROR_TYPE] == client.span_attributes[Attr.ERROR_TYPE] == error_type


def test_a_slow_success_is_not_an_error_span() -> None:
    lines = Lines()
    run(Tracing(lines).attempt("POST", "/v1/completions", None, T0), record(error_type=ErrorType.SLO_VIOLATION))
    assert lines.rows()[0].status_code == "Unset"
    assert Attr.ERROR_TYPE not in lines.rows()[0].span_attributes


def test_a_callers_trace_goes_on() -> None:
    lines = Lines()
    trace = Tracing(lines).attempt("POST", "/v1/completions", INCOMING, T0)
    assert trace.trace_id == "0af7651916cd43dd8448eb211c80319c"
    trace.client("text_completion", "legal", T0 + 5)
    onward = trace.traceparent
    trace.close(record(), 200, T0 + 9)
    root, client = lines.rows()
    assert (root.parent_span_id, client.timestamp) == ("b7ad6b7169203331", T0 + 5)
    assert onward == f"00-{trace.trace_id}-{client.span_id}-01"


@pytest.mark.parametrize("bad", ["", "nonsense", "00-" + "0" * 32 + "-b7ad6b7169203331-01", INCOMING.upper(), "é" * 55])
def test_an_invalid_traceparent_begins_a_new_trace(bad: str) -> None:
    lines = Lines()
    trace = Tracing(lines).attempt("POST", "/x", bad, T0)
    trace.close(record(), 200, T0)
    assert lines.rows()[0].parent_span_id == ""
    assert trace.trace_id != "0af7651916cd43dd8448eb211c80319c"


def test_children_are_sampled_by_trace_id_and_the_root_never() -> None:
    kept = []
    for n in range(200):
        lines = Lines()
        parent = f"00-{'f' * 16}{n * 2**56 + 1:016x}-b7ad6b7169203331-01"
        trace = Tracing(lines, child_ratio=0.5).attempt("POST", "/x", parent, T0)
        run(trace, record())
        assert trace.traceparent.endswith("-01" if trace.sampled else "-00")
        assert len(lines.rows()) == (4 if trace.sampled else 1)
        assert Attr.USAGE_RECORD in lines.rows()[0].span_attributes
        assert lines.rows()[0].span_attributes[Attr.REQUEST_MODEL] == "legal"
        kept.append(trace.sampled)
    assert kept == [True] * 128 + [False] * 72, "the lower half of the ids, the same in every process"


def test_contents_are_never_recorded() -> None:
    lines = Lines()
    trace = Tracing(lines).attempt("POST", "/x", None, T0)
    for attribute in (
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.system_instructions",
        "gen_ai.prompt.x",
    ):
        trace.set(attribute, "SECRET")
    trace.close(record(), 200, T0)
    assert "SECRET" not in lines[0]


def test_an_attempt_ends_exactly_once() -> None:
    lines = Lines()
    trace = Tracing(lines).attempt("POST", "/x", None, T0)
    trace.close(record(), 200, T0)
    for again in (lambda: trace.close(record(), 200, T0), lambda: trace.set("a", 1), lambda: trace.child("a", T0, T0)):
        with pytest.raises(TraceClosed, match=trace.trace_id):
            again()
    assert len(lines) == 1


def broken(spans: Sequence[ReadableSpan]) -> str:
    raise RuntimeError("encoder broke")


@pytest.mark.parametrize("disabled", [False, True])
def test_the_record_gets_out_when_spans_fail_or_the_sdk_is_switched_off(
    disabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if disabled:
        monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    monkeypatch.setattr("telemetry.tracing.spans_line", broken)
    lines = Lines()
    tracing = Tracing(lines)
    trace = tracing.attempt("POST", "/x", INCOMING, T0)
    run(trace, record(status=Status.SERVER_ERROR, error_type=ErrorType.OOM), 500)
    (root,) = lines.rows()
    assert UsageRecord.from_json(root.span_attributes[Attr.USAGE_RECORD]).seq == 7
    assert (root.trace_id, root.parent_span_id) == (trace.trace_id, "b7ad6b7169203331")
    assert (root.span_name, root.duration, root.service_name) == ("POST /x", 900, "loraledger")
    assert root.span_attributes[Attr.ERROR_TYPE] == "oom"
    assert tracing.encode_failures == (0 if disabled else 1)


def test_limits_in_the_environment_do_not_cut_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "10")
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "2")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    lines = Lines()
    Tracing(lines).attempt("POST", "/x", None, T0).close(record(), 200, T0)
    assert json.loads(lines.rows()[0].span_attributes[Attr.USAGE_RECORD])["tenant"] == "acme"


def test_the_process_wide_provider_is_left_alone() -> None:
    before = process_wide.get_tracer_provider()
    Tracing(Lines()).attempt("GET", "/x", None, T0).close(record(), 200, T0)
    assert process_wide.get_tracer_provider() is before
    assert not process_wide.get_current_span().get_span_context().is_valid
