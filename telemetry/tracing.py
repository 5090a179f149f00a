"""One trace per attempt, in one spool line, with the usage record on its root. The door to the OpenTelemetry SDK.

Nothing here samples the root, raises because a span could not be made, or records a prompt.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, NamedTuple, Protocol
from uuid import uuid4

from opentelemetry.context import Context
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Decision, TraceIdRatioBased
from opentelemetry.trace import (
    INVALID_SPAN,
    Span,
    SpanContext,
    SpanKind,
    format_span_id,
    format_trace_id,
    get_current_span,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.trace.status import Status as SpanStatus
from opentelemetry.trace.status import StatusCode

from telemetry.errors import TraceClosed
from telemetry.names import PROVIDER_NAME, SERVICE_NAME, Attr
from telemetry.otlp_encode import span_line, spans_line
from telemetry.usage import Status, UsageRecord

log = logging.getLogger(__name__)

Value = str | bool | int | float | Sequence[str]

_GEN_AI: Final = "gen_ai."
_CONTENT: Final = (
    "gen_ai.input.",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.definitions",
    "gen_ai.prompt.",
)
"""Attributes of the GenAI convention that carry what people wrote or got; they are never recorded."""
# Explicit, because the SDK would take limits from the environment, and a cut usage record is a lost one.
_NO_LIMITS: Final = SpanLimits(*([SpanLimits.UNSET] * 8))


class LineSink(Protocol):
    """Where finished lines go: the spool."""

    def append(self, line: str) -> Future[None]:
        """Take a line; the future is done when it is durable."""


class _Client(NamedTuple):
    name: str
    context: SpanContext
    start_ns: int


class _Child(NamedTuple):
    name: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Value | None]


class Tracing:
    """Starts attempts. Own TracerProvider: the process-wide one is left alone.

    `resource` adds to `service.name` and a random `service.instance.id`, or replaces them. `child_ratio` of the trace
    ids keep their inner spans, the same ones in every process.
    """

    def __init__(
        self,
        spool: LineSink,
        resource: Mapping[str, Value] | None = None,
        *,
        child_ratio: float = 1.0,
    ) -> None:
        self.encode_failures = 0
        """Attempts whose spans could not be made or written and went out as a bare root with the usage record."""
        self._spool = spool
        self._resource = Resource(
            {"service.name": SERVICE_NAME, "service.instance.id": uuid4().hex, **(resource or {})}
        )
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=self._resource,
            shutdown_on_exit=False,
            span_limits=_NO_LIMITS,
            meter_provider=NoOpMeterProvider(),
        )
        self._tracer = self._provider.get_tracer(SERVICE_NAME)
        self._ids = RandomIdGenerator()
        self._children = TraceIdRatioBased(child_ratio)
        self._lock = threading.Lock()

    def attempt(self, method: str, path: str, traceparent: str | None, start_ns: int) -> AttemptTrace:
        """Begin the trace of one attempt at `start_ns` (UTC nanoseconds), below `traceparent` when that is a valid one.

        `path` is the route, without query: it becomes the root's name, so it must be one of few.
        """
        carrier = {"traceparent": traceparent} if traceparent else {}
        parent = TraceContextTextMapPropagator().extract(carrier, Context())
        root = self._start(f"{method} {path}", parent, start_ns)
        attributes: dict[str, Value] = {Attr.HTTP_METHOD: method, Attr.HTTP_ROUTE: path, Attr.URL_PATH: path}
        return AttemptTrace(self, root, parent, f"{method} {path}", start_ns, attributes)

    def _start(self, name: str, parent: Context, start_ns: int) -> Span:
        """Begin a root; one that records nothing when it cannot be made."""
        try:
            return self._tracer.start_span(name, parent, SpanKind.SERVER, start_time=start_ns)
        except Exception as error:
            self.count_failure(error)
            return INVALID_SPAN

    def keeps_children(self, trace_id: int) -> bool:
        """Whether the inner spans of this trace are written."""
        return self._children.should_sample(None, trace_id, "").decision is Decision.RECORD_AND_SAMPLE

    def count_failure(self, error: Exception) -> None:
        """Count an attempt whose spans could not be made: only its root with the record was written."""
        with self._lock:
            self.encode_failures += 1
            first = self.encode_failures == 1
        log.log(logging.ERROR if first else logging.DEBUG, "could not write the spans of an attempt", exc_info=error)


class AttemptTrace:
    """The trace of one attempt, used by one task; written when it is closed. Instants are UTC nanoseconds."""

    def __init__(
        self, tracing: Tracing, root: Span, parent: Context, name: str, start_ns: int, attributes: dict[str, Value]
    ) -> None:
        """Made by `Tracing.attempt`."""
        self._tracing = tracing
        self._root = root
        self._name = name
        self._start_ns = start_ns
        self._attributes = attributes
        self._client: _Client | None = None
        self._children: list[_Child] = []
        self._closed = False
        context, outer = root.get_span_context(), get_current_span(parent).get_span_context()
        # Without the SDK (OTEL_SDK_DISABLED) there is no span to take ids from, and still a record to carry.
        number = context.trace_id or outer.trace_id or tracing._ids.generate_trace_id()
        self._parent_id = format_span_id(outer.span_id) if outer.is_valid else ""
        self._span_id = format_span_id(context.span_id if root.is_recording() else tracing._ids.generate_span_id())
        self.sampled = tracing.keeps_children(number)
        """Whether inner spans are kept."""
        self.trace_id = format_trace_id(number)
        """32 hex digits."""

    @property
    def traceparent(self) -> str:
        """The W3C header for what this attempt calls: below the client span once there is one."""
        span_id = format_span_id(self._client.context.span_id) if self._client else self._span_id
        return f"00-{self.trace_id}-{span_id}-{int(self.sampled):02x}"

    def set(self, attribute: str, value: Value | None) -> None:
        """Put an attribute on the root, a `gen_ai.*` one on the client span too. None and contents are left out."""
        self._must_be_open("write to")
        if value is not None and not attribute.startswith(_CONTENT):
            self._attributes[attribute] = value

    def client(self, operation: str, model: str, start_ns: int | None = None) -> None:
        """Begin the GenAI client span `{operation} {model}`, from the attempt's start unless said otherwise."""
        self._must_be_open("write to")
        self.set(Attr.OPERATION, operation)
        self.set(Attr.PROVIDER, PROVIDER_NAME)
        self.set(Attr.REQUEST_MODEL, model)
        if self.sampled and self._client is None and self._root.is_recording():
            self._client = _Client(f"{operation} {model}", self._inner_context(), start_ns or self._start_ns)

    def child(
        self, name: str, start_ns: int, end_ns: int, attributes: Mapping[str, Value | None] | None = None
    ) -> None:
        """Add a finished inner span, below the client span when there is one at the end."""
        self._must_be_open("write to")
        if self.sampled:
            self._children.append(_Child(name, start_ns, end_ns, attributes or {}))

    def close(self, record: UsageRecord, http_status: int | None, end_ns: int) -> Future[None]:
        """End everything and write it, with `record`, as one line; the future is done when that is durable.

        Raises TraceClosed the second time. Spans that cannot be made cost their detail, never the record.
        """
        self._must_be_open("close")
        self._closed = True
        self._attributes |= _of_record(record)
        if http_status is not None:
            self._attributes[Attr.HTTP_STATUS] = http_status
        if record.status is not Status.OK:
            self._attributes[Attr.ERROR_TYPE] = record.error_type or record.status
        try:
            line = self._line(record, end_ns)
        except Exception as error:  # whatever fails in here must not cost the record
            self._tracing.count_failure(error)
            line = self._bare_line(record, end_ns)
        return self._tracing._spool.append(line)

    def _line(self, record: UsageRecord, end_ns: int) -> str:
        """All spans, made of what is known of them only now: nobody sees one before its line."""
        root, client = self._root, self._client
        if not isinstance(root, ReadableSpan):
            return self._bare_line(record, end_ns)
        make = partial(ReadableSpan, resource=root.resource, instrumentation_scope=root.instrumentation_scope)
        status = SpanStatus(StatusCode.ERROR if record.status is not Status.OK else StatusCode.UNSET)
        outer = partial(make, status=status, end_time=end_ns)
        spans = [
            outer(
                self._name,
                root.context,
                root.parent,
                attributes=self._attributes,
                events=root.events,
                kind=SpanKind.SERVER,
                start_time=self._start_ns,
            )
        ]
        above = root.context
        if client is not None:
            above = client.context
            shown = {k: v for k, v in self._attributes.items() if k.startswith(_GEN_AI) or k == Attr.ERROR_TYPE}
            spans.append(
                outer(
                    client.name,
                    above,
                    root.context,
                    attributes=shown,
                    kind=SpanKind.CLIENT,
                    start_time=client.start_ns,
                )
            )
        for name, start_ns, ended_ns, attributes in self._children:
            context = self._inner_context()
            spans.append(make(name, context, above, attributes=attributes, start_time=start_ns, end_time=ended_ns))
        return spans_line(spans)

    def _bare_line(self, record: UsageRecord, end_ns: int) -> str:
        keep = (Attr.TENANT, Attr.ADAPTER, Attr.STATUS, Attr.ERROR_TYPE, Attr.HTTP_STATUS, Attr.USAGE_RECORD)
        attributes = {key: self._attributes[key] for key in keep if key in self._attributes}
        resource = self._tracing._resource.attributes
        return span_line(
            self.trace_id, self._span_id, self._parent_id, self._name, self._start_ns, end_ns, attributes, resource
        )

    def _inner_context(self) -> SpanContext:
        """An id of its own, in the root's trace."""
        root = self._root.get_span_context()
        span_id = self._tracing._ids.generate_span_id()
        return SpanContext(root.trace_id, span_id, False, root.trace_flags, root.trace_state)

    def _must_be_open(self, verb: str) -> None:
        if self._closed:
            raise TraceClosed(self.trace_id, verb)


def _of_record(record: UsageRecord) -> dict[str, Value]:
    """The attributes by which people search spans, and the whole usage record."""
    values: dict[str, Any] = {
        Attr.TENANT: record.tenant,
        Attr.ADAPTER: record.adapter,
        Attr.ADAPTER_HASH: record.adapter_hash,
        Attr.BASE_MODEL: record.base_model,
        Attr.ENGINE: record.engine,
        Attr.REQUEST_ID: record.request_id,
        Attr.STATUS: record.status.value,
        Attr.ROUTE_RULE: record.route_rule,
        Attr.ROUTE_REASON: record.route_reason,
        Attr.ROUTE_POLICY: record.route_policy,
        Attr.QUEUE_NS: record.queue_ns,
        Attr.INPUT_TOKENS: record.input_tokens,
        Attr.CACHED_TOKENS: record.cached_tokens,
        Attr.OUTPUT_TOKENS: record.output_tokens_delivered,
        Attr.USAGE_RECORD: record.to_json(),
    }
    if record.slices is not None:
        values[Attr.BASE_NS] = sum(part.base_ns for part in record.slices)
        values[Attr.ADAPTER_NS] = sum(part.adapter_ns for part in record.slices)
    return {key: value for key, value in values.items() if value is not None}
