"""What an ended attempt adds to each family, by value: above all who broke a promise, and who has no say in it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from decimal import Decimal
from typing import Any, cast

import pytest

from serving.attempt.measures import observe
from serving.attempt.record import Facts, usage_record
from serving.metering.attempts import Measured
from serving.policy.residency import HIT
from telemetry import names
from telemetry.usage import UNAUTHENTICATED, ErrorType, Slice, Status

S = 1_000_000_000
FACTS = Facts(
    "gw-1", 7, "req-1", "clinic", 100 * S, "tiny", engine="e0", gpu_type="h200", gpu_count=2, status=Status.OK, http_status=200,
    routed=True, adapter="coder", route_policy="p1", route_reason=HIT, operation="chat", reached_engine=True,
    first_token_ns=101 * S, finished_ns=102 * S, delivered=8, slo_seconds=Decimal("1.6"), warm=True, cold_ns=5_000_000,
)  # fmt: skip
METER = Measured(
    (Slice(0, 5_000_000, 4_000_000, 3_000_000), Slice(1, 0, 2_000_000, 0)), 31, 16, 11, 2, 101 * S, 100 * S, "m", "p"
)


class Told(defaultdict[Any, list[Any]]):
    """Metrics that remember what they were told: family → (value, labels)."""

    def __init__(self) -> None:
        super().__init__(list)

    def add(self, name: Any, value: float = 1, **labels: str) -> None:
        self[name].append((value, labels))

    def observe(self, name: Any, value: float, trace: str | None, **labels: str) -> None:
        self[name].append((value, labels))

    def window_p99(self, name: Any, value: float) -> None:
        self[name].append((value, {}))

    def window_rate(self, name: Any, part: float, whole: float, **labels: str) -> None:
        self[name].append(((part, whole), labels))


def told(meter: Measured | None = METER, computed: bool = True, **changes: Any) -> dict[Any, list[Any]]:
    facts, metrics = replace(FACTS, **changes), Told()
    observe(cast("Any", metrics), usage_record(facts, meter, computed), facts)
    return dict(metrics)


def test_an_attempt_is_in_every_family_with_its_figures() -> None:
    whose = {"tenant": "clinic", "adapter": "coder"}
    genai = {"gen_ai_operation_name": "chat", "gen_ai_provider_name": names.PROVIDER_NAME}
    assert told() == {
        names.REQUESTS: [(1, whose | {"status": "ok"})],
        names.REQUEST_ERRORS: [(1, whose | {"error_type": "slo_violation"})],
        names.ROUTE_DECISIONS: [(1, {"adapter": "coder", "reason": HIT})],
        names.REQUEST_SECONDS: [(2.0, whose)],
        names.GEN_AI_REQUEST: [(2.0, genai)],
        names.GEN_AI_TTFT: [(1.0, genai)],
        names.SLO_RATIO_HIST: [(1.25, {"tenant": "clinic"})],
        names.INPUT_TOKENS: [(31, whose)],
        names.OUTPUT_TOKENS: [(8, whose)],
        names.KV_LOOKUPS: [(31, {"tenant": "clinic"})],
        names.KV_HITS: [(16, {"tenant": "clinic"})],
        names.KV_HIT_RATE: [((16, 31), {"tenant": "clinic"})],
        names.ROUTING_COST_MS: [(6.0, {"tenant": "clinic"})],
        names.TENANT_TIME: [(0.014, {"tenant": "clinic"})],
        names.COLD_START_MS_HIST: [(5.0, {"adapter": "coder"})],
        names.COLD_START_P99: [(5.0, {})],
        names.WARM_LOOKUPS: [(1, {})],
        names.WARM_HITS: [(1, {})],
        names.WARM_HIT_RATE: [((1, 1), {})],
    }


@pytest.mark.parametrize(
    ("changes", "ratio"),
    [
        ({}, 1.25),
        ({"client_ns": 400_000_000}, 1.0),
        ({"slo_seconds": None}, None),
        ({"status": Status.TIMEOUT}, 10.0),
        ({"status": Status.SERVER_ERROR}, 10.0),
        ({"status": Status.TIMEOUT, "finished_ns": 132 * S}, 20.0),
        ({"status": Status.CLIENT_ABORT}, 1.25),
        ({"status": Status.CLIENT_ABORT, "client_ns": 400_000_000}, None),
        ({"status": Status.CLIENT_ABORT, "error_type": ErrorType.CLIENT_ABORT}, 1.25),
        ({"status": Status.CLIENT_ABORT, "error_type": ErrorType.CLIENT_SLOW}, None),
        ({"error_type": ErrorType.CLIENT_SLOW}, 1.25),
        ({"status": Status.CLIENT_ABORT, "finished_ns": 101 * S}, None),
        ({"status": Status.REJECTED}, None),
        ({"status": Status.BAD_REQUEST}, None),
    ],
)
def test_who_broke_a_promise_and_who_has_no_say(changes: dict[str, Any], ratio: float | None) -> None:
    expected = [] if ratio is None else [(ratio, {"tenant": "clinic"})]
    assert told(**changes).get(names.SLO_RATIO_HIST, []) == expected


def test_an_attempt_that_never_got_to_the_engine_took_no_time_there() -> None:
    found = told(None, False, reached_engine=False, routed=False, adapter=None, route_reason=None, status=Status.REJECTED,
                 cold_ns=None, warm=False, delivered=0, error_type=ErrorType.REJECTED)  # fmt: skip
    assert found == {
        names.REQUESTS: [(1, {"tenant": "clinic", "adapter": names.OTHER, "status": "rejected"})],
        names.REQUEST_ERRORS: [(1, {"tenant": "clinic", "adapter": names.OTHER, "error_type": "rejected"})],
        names.ROUTE_DECISIONS: [(1, {"adapter": names.OTHER, "reason": "client_abort"})],
    }


def test_unmeasured_time_is_counted_as_missing_and_not_as_none() -> None:
    found = told(None, True, adapter=None, route_reason="miss", first_token_ns=None)
    assert found[names.METER_MISSING] == [(1, {})]
    assert names.TENANT_TIME not in found
    assert names.GEN_AI_TTFT not in found
    assert (found[names.WARM_LOOKUPS], found[names.WARM_HITS], found[names.WARM_HIT_RATE]) == ([(1, {})], [(0, {})], [((0, 1), {})])  # fmt: skip
    assert found[names.REQUESTS] == [(1, {"tenant": "clinic", "adapter": names.BASE, "status": "ok"})]


def test_without_a_route_no_decision_is_counted_and_whoever_has_no_key_is_counted_as_it_comes() -> None:
    assert names.ROUTE_DECISIONS not in told(route_policy=None)
    assert told(tenant=UNAUTHENTICATED) == {}
