"""What an ended attempt counts as: whose promise it broke, and what work it was."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pytest

from serving.attempt.measures import observe
from serving.attempt.record import Facts, usage_record
from serving.metering.attempts import Measured
from telemetry import names
from telemetry.names import Metric
from telemetry.usage import ErrorType, Slice, Status

S = 1_000_000_000
FACTS = Facts(
    "gw-1", 7, "req-1", "clinic", 100 * S, "tiny", engine="e0", status=Status.OK, routed=True, adapter="coder", route_policy="v1",
    route_reason="hit", operation="chat", reached_engine=True, first_token_ns=100 * S + S // 4, finished_ns=102 * S,
    delivered=8, slo_seconds=Decimal("2.5"),
)  # fmt: skip
METER = Measured(
    (Slice(0, 500, 40, 3, 2, 1), Slice(900 * S, 70, 6, 0, 0, 0)), 31, 16, 11, 2, 101 * S, 100 * S, "engine-step/1", "p"
)


@dataclass
class Seen:
    """Every figure by family: what it was, with its labels' values."""

    figures: dict[str, list[tuple[float, ...]]] = field(default_factory=dict)
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def add(self, metric: Metric, amount: float = 1, **labels: str) -> None:
        self.figures.setdefault(metric.name, []).append((amount,))
        self.labels[metric.name] = tuple(labels.values())

    def observe(self, metric: Metric, value: float, exemplar: str | None = None, **labels: str) -> None:
        self.add(metric, value, **labels)

    def window_rate(self, metric: Metric, hits: int, lookups: int, **labels: str) -> None:
        self.figures.setdefault(metric.name, []).append((hits, lookups))

    def window_p99(self, metric: Metric, value: float, **labels: str) -> None:
        self.add(metric, value, **labels)


def seen(facts: Facts, meter: Measured | None = METER, worked: bool = True) -> Seen:
    found: Any = Seen()
    observe(found, usage_record(facts, meter, worked), facts)
    made: Seen = found
    return made


@pytest.mark.parametrize(
    ("status", "took_ns", "client_ns", "error_type", "ratio"),
    [
        (Status.OK, 2_500_000_000, 0, None, 1.0),
        (Status.OK, 2_750_000_000, 0, None, 1.1),
        (Status.OK, 2_750_000_000, 250_000_000, None, 1.0),
        (Status.TIMEOUT, S, 0, ErrorType.ENGINE_ERROR, 10.0),
        (Status.SERVER_ERROR, 0, 0, ErrorType.ENGINE_ERROR, 10.0),
        (Status.SERVER_ERROR, 50 * S, 0, ErrorType.ENGINE_ERROR, 20.0),
        (Status.CLIENT_ABORT, 2_500_000_000, 0, ErrorType.CLIENT_ABORT, None),
        (Status.CLIENT_ABORT, 5 * S, 0, ErrorType.CLIENT_ABORT, 2.0),
        (Status.CLIENT_ABORT, 5 * S, 2_500_000_000, ErrorType.CLIENT_ABORT, None),
        (Status.CLIENT_ABORT, 5 * S, 0, ErrorType.CLIENT_SLOW, None),
        (Status.REJECTED, 50 * S, 0, ErrorType.REJECTED, None),
        (Status.BAD_REQUEST, 50 * S, 0, None, None),
    ],
)
def test_failures_and_late_hang_ups_break_the_promise_and_what_the_client_took_does_not(
    status: Status, took_ns: int, client_ns: int, error_type: ErrorType | None, ratio: float | None
) -> None:
    facts = replace(FACTS, status=status, finished_ns=100 * S + took_ns, client_ns=client_ns, error_type=error_type)
    judged = [] if ratio is None else [(ratio,)]
    assert seen(facts).figures.get(names.SLO_RATIO_HIST.name, []) == judged
    assert names.SLO_RATIO_HIST.name not in seen(replace(facts, slo_seconds=None)).figures


def test_an_attempt_on_the_engine_is_timed_and_its_work_is_counted() -> None:
    found = seen(replace(FACTS, cold_ns=30_000_000, warm=True))
    assert found.figures == {
        names.REQUESTS.name: [(1,)],
        names.ROUTE_DECISIONS.name: [(1,)],
        names.REQUEST_SECONDS.name: [(2.0,)],
        names.GEN_AI_REQUEST.name: [(2.0,)],
        names.GEN_AI_TTFT.name: [(0.25,)],
        names.SLO_RATIO_HIST.name: [(0.8,)],
        names.INPUT_TOKENS.name: [(31,)],
        names.OUTPUT_TOKENS.name: [(8,)],
        names.KV_LOOKUPS.name: [(31,)],
        names.KV_HITS.name: [(16,)],
        names.KV_HIT_RATE.name: [(16, 31)],
        names.ROUTING_COST_MS.name: [(46 / 1e6,)],
        names.TENANT_TIME.name: [(619 / 1e9,)],
        names.COLD_START_MS_HIST.name: [(30.0,)],
        names.COLD_START_P99.name: [(30.0,)],
        names.WARM_LOOKUPS.name: [(1,)],
        names.WARM_HITS.name: [(1,)],
        names.WARM_HIT_RATE.name: [(1, 1)],
    }
    assert found.labels[names.REQUESTS.name] == ("clinic", "coder", "ok")
    assert found.labels[names.ROUTE_DECISIONS.name] == ("coder", "hit")
    assert found.labels[names.GEN_AI_TTFT.name] == ("chat", "vllm")


def test_a_warm_adapter_that_was_not_there_is_a_lookup_without_a_hit() -> None:
    found = seen(replace(FACTS, warm=True, route_reason="miss"))
    assert (found.figures[names.WARM_HITS.name], found.figures[names.WARM_HIT_RATE.name]) == ([(0,)], [(0, 1)])


def test_an_attempt_that_nobody_measured_is_said_to_be_so() -> None:
    found = seen(FACTS, None)
    assert found.figures[names.METER_MISSING.name] == [(1,)]
    assert {names.ROUTING_COST_MS.name, names.TENANT_TIME.name}.isdisjoint(found.figures)


def test_an_attempt_that_was_refused_is_counted_and_neither_timed_nor_unmeasured() -> None:
    refused = replace(
        FACTS, status=Status.REJECTED, error_type=ErrorType.REJECTED, routed=False, route_policy=None, reached_engine=False,
        delivered=0, first_token_ns=None,
    )  # fmt: skip
    found = seen(refused, None, False)
    assert found.figures == {names.REQUESTS.name: [(1,)], names.REQUEST_ERRORS.name: [(1,)]}
    assert found.labels[names.REQUESTS.name] == ("clinic", "other", "rejected")
    assert found.labels[names.REQUEST_ERRORS.name] == ("clinic", "other", "rejected")
    assert seen(replace(refused, tenant="unauthenticated"), None, False).figures == {}
