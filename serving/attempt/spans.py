"""From an attempt to the spans of its trace."""

from __future__ import annotations

from typing import Any

from catalog.durations import SECOND_NS
from serving.attempt.attempt import Attempt
from serving.attempt.guard import guarded
from serving.metering.accounting import Measured
from telemetry.names import Attr, SpanName
from telemetry.usage import UsageRecord


def traceparent(attempt: Attempt) -> str:
    """The W3C header for what the attempt calls: below its GenAI client span, once it is routed."""
    facts = attempt.facts
    if facts.routed:
        with guarded("request %s: its client span could not be begun", facts.request_id):
            attempt.trace.client(facts.operation, facts.model)
    return attempt.trace.traceparent


def describe(attempt: Attempt, record: UsageRecord, meter: Measured | None) -> None:
    """Put an ended attempt's stages and attributes on its trace; those of the record come with the record."""
    trace, facts = attempt.trace, attempt.facts
    trace.set(Attr.REQUEST_STREAM, facts.stream)
    if not facts.reached_engine:
        traceparent(attempt)
    if facts.first_token_ns is not None:
        trace.set(Attr.TIME_TO_FIRST_CHUNK, (facts.first_token_ns - facts.arrival_ns) / SECOND_NS)
    trace.set(Attr.RESPONSE_ID, facts.response_id)
    trace.set(Attr.FINISH_REASONS, list(facts.finish_reasons) or None)
    trace.set(Attr.COLD_START, facts.cold_ns is not None)
    trace.set(Attr.RESPONSE_MODEL, facts.model if facts.routed else None)
    for stage in attempt.trail:
        trace.child(*stage)
    if facts.reached_engine:
        start_ns = meter.entered_ns if meter is not None else attempt.engine_from_ns
        end_ns = record.finished_ns or start_ns
        # The engine's clock was tied to UTC at another moment than ours; a child stays inside its root.
        trace.child(SpanName.ENGINE, max(facts.arrival_ns, min(start_ns, end_ns)), end_ns, _work(record))


def _work(record: UsageRecord) -> dict[str, Any]:
    work: dict[str, Any] = {Attr.ENGINE: record.engine, Attr.QUEUE_NS: record.queue_ns}
    if record.slices is not None:
        work[Attr.BASE_NS] = sum(part.base_ns for part in record.slices)
        work[Attr.ADAPTER_NS] = sum(part.adapter_ns for part in record.slices)
    return work
