from __future__ import annotations

from decimal import Decimal

from billing.cost.facts import QuarterKey, TenantQuarter
from billing.cost.tenant_quarters import Part, merge, without_engine_time

KEY = QuarterKey("t", "base", "e", "ok", 0)


def test_numbers_of_one_key_add_up_and_time_without_a_record_is_lost() -> None:
    parts = [
        Part(KEY, {"base_ns": 5}),
        Part(KEY, {"base_ns": 2, "requests": 1}),
        Part(KEY._replace(status=""), {"base_ns": 3}),
        Part(KEY._replace(status="lost"), {"requests": 1}),
        Part(KEY._replace(tenant="u"), {"base_ns": 0}),
    ]
    assert merge(parts) == [
        TenantQuarter("t", "base", "e", "lost", 0, base_ns=3, requests=1),
        TenantQuarter("t", "base", "e", "ok", 0, base_ns=7, requests=1),
    ]


def test_attempts_without_engine_time_cost_nothing() -> None:
    row = without_engine_time(TenantQuarter("t", "base", "", "rejected", 0, requests=3), Decimal(0))
    assert row.quarter.requests == 3
    assert row.gpu_hours == row.cost == 0
