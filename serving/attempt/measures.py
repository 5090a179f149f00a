"""What an ended attempt adds to the metrics."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from catalog.durations import SECOND_NS
from serving.attempt.record import Facts
from serving.policy.residency import HIT
from telemetry import names
from telemetry.metrics import Metrics
from telemetry.usage import UNAUTHENTICATED, ErrorType, Status, UsageRecord

BROKEN_RATIO: Final = 10.0
"""What a failure counts as on the latency ÷ SLO scale: above every bound, and finite, so that sums stay numbers."""


def observe(metrics: Metrics, record: UsageRecord, facts: Facts) -> None:
    """Count an ended attempt in every family that belongs to requests; `facts` say what its record does not."""
    tenant = record.tenant
    adapter = (record.adapter or names.BASE) if facts.routed else names.OTHER
    trace = record.trace_id
    took_ns = (record.finished_ns or record.arrival_ns) - record.arrival_ns
    seconds = took_ns / SECOND_NS
    if tenant == UNAUTHENTICATED:
        return  # each was counted as it came
    metrics.add(names.REQUESTS, tenant=tenant, adapter=adapter, status=record.status.value)
    if record.error_type is not None:
        metrics.add(names.REQUEST_ERRORS, tenant=tenant, adapter=adapter, error_type=record.error_type.value)
    if facts.route_policy is not None:
        metrics.add(names.ROUTE_DECISIONS, adapter=adapter, reason=record.route_reason or "client_abort")
    if facts.reached_engine:
        metrics.observe(names.REQUEST_SECONDS, seconds, trace, tenant=tenant, adapter=adapter)
        labels = {"gen_ai_operation_name": facts.operation, "gen_ai_provider_name": names.PROVIDER_NAME}
        metrics.observe(names.GEN_AI_REQUEST, seconds, trace, **labels)
        if record.first_token_ns is not None:
            metrics.observe(names.GEN_AI_TTFT, (record.first_token_ns - record.arrival_ns) / SECOND_NS, trace, **labels)
    cut_off = record.status is Status.CLIENT_ABORT and record.error_type is ErrorType.CLIENT_SLOW
    ratio = None if cut_off else _slo_ratio(record.status, took_ns - facts.client_ns, facts)
    if ratio is not None:
        metrics.observe(names.SLO_RATIO_HIST, ratio, trace, tenant=tenant)
    _count_work(metrics, record, adapter)
    if facts.cold_ns is not None:
        ms = facts.cold_ns / 1e6
        metrics.observe(names.COLD_START_MS_HIST, ms, trace, adapter=adapter)
        metrics.window_p99(names.COLD_START_P99, ms)
    if facts.warm:
        hit = int(record.route_reason == HIT)
        metrics.add(names.WARM_LOOKUPS)
        metrics.add(names.WARM_HITS, hit)
        metrics.window_rate(names.WARM_HIT_RATE, hit, 1)


def _slo_ratio(status: Status, took_ns: int, facts: Facts) -> float | None:
    """Latency ÷ promise, rounded once, so that exactly 1.1 x the promise is not above 1.1.

    Refused and faulty requests have no say; one that the client gave up only if already late. `took_ns` is without the time
    that the client itself took.
    """
    if facts.slo_seconds is None:
        return None
    ratio = float(Fraction(took_ns, SECOND_NS) / Fraction(facts.slo_seconds))
    match status:
        case Status.OK:
            return ratio
        case Status.SERVER_ERROR | Status.TIMEOUT:
            return max(BROKEN_RATIO, ratio)
        case Status.CLIENT_ABORT if ratio > 1:
            return ratio
    return None


def _count_work(metrics: Metrics, record: UsageRecord, adapter: str) -> None:
    tenant = record.tenant
    if record.input_tokens:
        metrics.add(names.INPUT_TOKENS, record.input_tokens, tenant=tenant, adapter=adapter)
    if record.output_tokens_delivered:
        metrics.add(names.OUTPUT_TOKENS, record.output_tokens_delivered, tenant=tenant, adapter=adapter)
    if record.input_tokens is not None and record.cached_tokens is not None:
        metrics.add(names.KV_LOOKUPS, record.input_tokens, tenant=tenant)
        metrics.add(names.KV_HITS, record.cached_tokens, tenant=tenant)
        metrics.window_rate(names.KV_HIT_RATE, record.cached_tokens, record.input_tokens, tenant=tenant)
    if record.slices is None:
        metrics.add(names.METER_MISSING)
        return
    if record.slices:
        metrics.add(names.ROUTING_COST_MS, sum(s.adapter_ns for s in record.slices) / 1e6, tenant=tenant)
        metrics.add(names.TENANT_TIME, sum(s.measured_ns for s in record.slices) / SECOND_NS, tenant=tenant)
