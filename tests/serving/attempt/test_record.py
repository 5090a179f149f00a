"""A usage record says what is known, null where nobody knows, and whose fault it was that a success came late."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from serving.attempt.record import Facts, usage_record
from serving.metering.attempts import Measured
from telemetry.usage import ErrorType, Slice, Status

S = 1_000_000_000
FACTS = Facts(
    "gw-1", 7, "req-1", "clinic", 100 * S, "tiny", engine="e0", gpu_type="h200", gpu_count=2, status=Status.OK,
    http_status=200, routed=True, adapter="coder", finished_ns=102 * S, input_tokens=30, cached_tokens=10,
    output_tokens=9, delivered=8, slo_seconds=Decimal("1.5"), tries=3,
)  # fmt: skip
METER = Measured((Slice(0, 5, 4, 3, 2, 1),), 31, 16, 11, 2, 101 * S, 100 * S + 4, "engine-step/1", "0123")


def test_the_meter_is_believed_before_the_reply() -> None:
    record = usage_record(FACTS, METER, True)
    assert (record.attempt, record.attempt_key, record.output_tokens_delivered) == (3, "gw-1:7", 8)
    assert (record.input_tokens, record.cached_tokens, record.output_tokens_computed) == (31, 16, 11)
    assert (record.preemptions, record.queue_ns, record.slices) == (2, S - 4, METER.slices)
    assert (record.method, record.profile) == ("engine-step/1", "0123")
    assert (record.engine, record.gpu_type, record.gpu_count, record.adapter) == ("e0", "h200", 2, "coder")
    assert usage_record(FACTS, replace(METER, first_scheduled_ns=None), True).queue_ns is None
    assert usage_record(FACTS, replace(METER, first_scheduled_ns=100 * S), True).queue_ns == 0


def test_time_that_nobody_measured_is_unknown_and_not_nothing() -> None:
    record = usage_record(FACTS, None, True)
    assert (record.slices, record.preemptions, record.queue_ns, record.method) == (None, None, None, None)
    assert (record.input_tokens, record.cached_tokens, record.output_tokens_computed) == (30, 10, 9)


def test_what_the_engine_never_worked_on_has_no_time_and_no_tokens() -> None:
    record = usage_record(FACTS, None, False)
    assert (record.slices, record.preemptions, record.output_tokens_computed) == ((), 0, 0)
    assert (record.input_tokens, record.cached_tokens) == (None, None)


def test_an_attempt_that_went_nowhere_was_on_no_engine() -> None:
    record = usage_record(replace(FACTS, routed=False, adapter=None), None, False)
    assert (record.engine, record.gpu_type, record.gpu_count) == (None, None, None)


@pytest.mark.parametrize(
    ("took_ns", "client_ns", "status", "said", "error_type"),
    [
        (1_500_000_000, 0, Status.OK, None, None),
        (1_500_000_001, 0, Status.OK, None, ErrorType.SLO_VIOLATION),
        (1_500_000_001, 1, Status.OK, None, ErrorType.CLIENT_SLOW),
        (1_500_000_002, 1, Status.OK, None, ErrorType.SLO_VIOLATION),
        (9 * S, 0, Status.CLIENT_ABORT, None, None),
        (9 * S, 0, Status.OK, ErrorType.OOM, ErrorType.OOM),
    ],
)
def test_a_success_is_late_above_its_promise_and_whose_fault_that_is(
    took_ns: int, client_ns: int, status: Status, said: ErrorType | None, error_type: ErrorType | None
) -> None:
    facts = replace(FACTS, finished_ns=100 * S + took_ns, client_ns=client_ns, status=status, error_type=said)
    assert usage_record(facts, METER, True).error_type is error_type
    assert usage_record(replace(facts, slo_seconds=None), METER, True).error_type is said


def test_what_was_asked_for_is_the_adapter_or_the_base_model() -> None:
    assert (FACTS.model, replace(FACTS, adapter=None).model) == ("coder", "tiny")
