"""From what the gateway saw and what the meter measured to the usage record. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from catalog.durations import SECOND_NS
from telemetry.usage import ErrorType, Status, UsageRecord

if TYPE_CHECKING:
    from serving.metering.accounting import Measured


@dataclass(slots=True)
class Facts:
    """What is known of one attempt so far; filled in as it goes on. Instants are UTC nanoseconds.

    `input_tokens`, `cached_tokens` and `output_tokens` are the engine's own words in the reply, used where the meter is
    silent. `slo_seconds` is the tenant's promise, and `client_ns` the time that the client itself took, which is not judged;
    `cold_ns` is how long the attempt waited for its adapter to be loaded, None when it did not, and `warm` says that the catalog
    wants that adapter warm. `tries` is above 1 only where attempts of nobody known are booked together.
    """

    emitter: str
    seq: int
    request_id: str
    tenant: str
    arrival_ns: int
    base_model: str
    engine: str = ""
    gpu_type: str | None = None
    gpu_count: int | None = None
    trace_id: str | None = None
    status: Status | None = None
    error_type: ErrorType | None = None
    http_status: int | None = None
    routed: bool = False
    adapter: str | None = None
    adapter_hash: str | None = None
    route_policy: str | None = None
    route_rule: str | None = None
    route_reason: str | None = None
    operation: str = ""
    stream: bool | None = None
    route_ns: int | None = None
    admitted_ns: int | None = None
    first_token_ns: int | None = None
    finished_ns: int | None = None
    reached_engine: bool = False
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    delivered: int = 0
    response_id: str | None = None
    finish_reasons: tuple[str, ...] = ()
    cold_ns: int | None = None
    warm: bool = False
    slo_seconds: Decimal | None = None
    client_ns: int = 0
    tries: int = 1

    @property
    def attempt_key(self) -> str:
        """The identity as the engine carries it."""
        return f"{self.emitter}:{self.seq}"

    @property
    def model(self) -> str:
        """What the attempt was routed to: an adapter or the base model."""
        return self.adapter or self.base_model


def usage_record(facts: Facts, meter: Measured | None, computed: bool) -> UsageRecord:
    """The record of an ended attempt.

    `computed` tells whether the engine ever worked on it: if not, its engine time is () and nothing was computed; if it
    did and `meter` is None, the time is unknown, which is null and not 0.
    """
    assert facts.finished_ns is not None
    assert facts.status is not None
    inputs: int | None
    cached: int | None
    outputs: int | None
    queue: int | None = None
    if meter is not None:
        inputs, cached, outputs = meter.input_tokens, meter.cached_tokens, meter.output_tokens
        if meter.first_scheduled_ns is not None:
            queue = max(0, meter.first_scheduled_ns - meter.entered_ns)
    elif computed:
        inputs, cached, outputs = facts.input_tokens, facts.cached_tokens, facts.output_tokens
    else:
        inputs, cached, outputs = None, None, 0
    return UsageRecord(
        emitter=facts.emitter,
        seq=facts.seq,
        request_id=facts.request_id,
        tenant=facts.tenant,
        attempt=facts.tries,
        arrival_ns=facts.arrival_ns,
        finished_ns=facts.finished_ns,
        status=facts.status,
        trace_id=facts.trace_id,
        adapter=facts.adapter,
        adapter_hash=facts.adapter_hash,
        base_model=facts.base_model,
        engine=facts.engine if facts.routed else None,
        gpu_type=facts.gpu_type if facts.routed else None,
        gpu_count=facts.gpu_count if facts.routed else None,
        route_policy=facts.route_policy,
        route_rule=facts.route_rule,
        route_reason=facts.route_reason,
        admitted_ns=facts.admitted_ns,
        first_token_ns=facts.first_token_ns,
        error_type=facts.error_type or _late(facts),
        http_status=facts.http_status,
        input_tokens=inputs,
        cached_tokens=cached,
        output_tokens_computed=outputs,
        output_tokens_delivered=facts.delivered,
        preemptions=meter.preemptions if meter is not None else None if computed else 0,
        queue_ns=queue,
        route_ns=facts.route_ns,
        slices=meter.slices if meter is not None else None if computed else (),
        method=meter.method if meter is not None else None,
        profile=meter.profile if meter is not None else None,
    )


def _late(facts: Facts) -> ErrorType | None:
    """Whose fault it is that a success took longer than the promise; None when it did not."""
    if facts.status is not Status.OK or facts.slo_seconds is None or facts.finished_ns is None:
        return None
    promised_ns, took_ns = facts.slo_seconds * SECOND_NS, facts.finished_ns - facts.arrival_ns
    if took_ns <= promised_ns:
        return None
    return ErrorType.SLO_VIOLATION if took_ns - facts.client_ns > promised_ns else ErrorType.CLIENT_SLOW
