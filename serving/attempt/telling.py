"""What is told of an attempt beside its record and its metrics: the spool's lines, the spans of its trace. Telling must not hurt it."""

from __future__ import annotations

import logging
from typing import Any

from catalog.durations import SECOND_NS
from serving.attempt.attempt import Attempt
from serving.attempt.record import told
from serving.metering.accounting import Measured
from telemetry.engine_time import Opened
from telemetry.names import Attr, EventName, SpanName
from telemetry.otlp_encode import event_line
from telemetry.routes import RouteRecord
from telemetry.usage import UsageRecord

log = logging.getLogger(__name__)


class guarded:
    """An exception inside goes no further: it is logged with `what` it cost, in which `args` are filled in."""

    __slots__ = ("_args", "_what")

    def __init__(self, what: str, *args: object) -> None:
        self._what, self._args = what, args

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if error is None or not isinstance(error, Exception):
            return False
        log.error(self._what, *self._args, exc_info=error)
        return True


def opened_line(attempt: Attempt) -> str:
    """An attempt of that number is under way, whatever becomes of it."""
    facts = attempt.facts
    opened = Opened(**told(facts, Opened))
    return event_line(EventName.OPENED, opened.to_json(), facts.arrival_ns, {}, facts.emitter, facts.seq)


def route_line(attempt: Attempt) -> str | None:
    """The attempt's line of the decision log; None when it was never routed."""
    facts = attempt.facts
    if attempt.asked is None or facts.route_policy is None:
        return None
    route = RouteRecord(
        asked=attempt.asked,
        adapter=facts.adapter,
        rule=facts.route_rule,
        policy=facts.route_policy,
        engine=facts.engine,
        reason=facts.route_reason or "client_abort",
    )
    at_ns = facts.arrival_ns + (facts.route_ns or 0)
    return event_line(EventName.ROUTE, route.to_json(), at_ns, {}, facts.emitter, facts.seq)


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
