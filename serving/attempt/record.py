"""From what the gateway saw and what the meter measured to the usage record. Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

from catalog.durations import SECOND_NS
from telemetry.usage import ErrorType, Status, UsageRecord
from telemetry.values import Value

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


@cache
def _same(kind: type[Value]) -> frozenset[str]:
    return frozenset(field.name for field in fields(Facts)) & set(kind.__struct_fields__)


def told(facts: Facts, kind: type[Value]) -> dict[str, Any]:
    """What the facts and a record of that kind call by one name, which is the same."""
    return {name: getattr(facts, name) for name in _same(kind)}


def usage_record(facts: Facts, meter: Measured | None, computed: bool) -> UsageRecord:
    """The record of an ended attempt.

    `computed` tells whether the engine ever worked on it: if not, its engine time is () and nothing was computed; if it
    did and `meter` is None, the time is unknown, which is null and not 0.
    """
    assert facts.finished_ns is not None
    assert facts.status is not None
    said = told(facts, UsageRecord)
    said["error_type"] = facts.error_type or _late(facts)
    if not facts.routed:
        said |= dict.fromkeys(("engine", "gpu_type", "gpu_count"))
    if meter is not None:
        said |= _measured(meter)
    elif computed:
        said["output_tokens_computed"] = facts.output_tokens
    else:
        said |= {
            "input_tokens": None,
            "cached_tokens": None,
            "output_tokens_computed": 0,
            "preemptions": 0,
            "slices": (),
        }
    return UsageRecord(**said, attempt=facts.tries, output_tokens_delivered=facts.delivered)


def _measured(meter: Measured) -> dict[str, Any]:
    begun = meter.first_scheduled_ns
    return {
        "input_tokens": meter.input_tokens,
        "cached_tokens": meter.cached_tokens,
        "output_tokens_computed": meter.output_tokens,
        "preemptions": meter.preemptions,
        "queue_ns": None if begun is None else max(0, begun - meter.entered_ns),
        "slices": meter.slices,
        "method": meter.method,
        "profile": meter.profile,
    }


def _late(facts: Facts) -> ErrorType | None:
    """Whose fault it is that a success took longer than the promise; None when it did not."""
    if facts.status is not Status.OK or facts.slo_seconds is None or facts.finished_ns is None:
        return None
    promised_ns, took_ns = facts.slo_seconds * SECOND_NS, facts.finished_ns - facts.arrival_ns
    if took_ns <= promised_ns:
        return None
    return ErrorType.SLO_VIOLATION if took_ns - facts.client_ns > promised_ns else ErrorType.CLIENT_SLOW
