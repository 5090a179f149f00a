from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from billing.cost.attribution import TenantCost
from billing.cost.facts import COLD, TenantQuarter
from billing.cost.tenant_quarters import Part, QuarterKey, merge, revenue, without_engine_time
from billing.exact.money import round_places, total
from billing.invoice.rating import rate_tenant
from catalog.durations import QUARTER_NS
from catalog.model import GpuPrice, PriceBook, Tenant

BOOK = PriceBook(
    version="b",
    gpu_hours=(GpuPrice(gpu_type="h200", start=datetime(2026, 1, 1, tzinfo=UTC), per_hour=Decimal("3.141592")),),
)
KEY = QuarterKey("t", "base", "e", "ok", 0)


def tenant(plan: dict[str, str]) -> Tenant:
    return Tenant.model_validate({"id": "t", "name": "T", "slo": {"p99_seconds": "1"}, "plan": plan})


COST_PLUS = tenant({"kind": "cost_plus", "margin": "0.25"})
PER_TOKEN = tenant({"kind": "per_token", "input": "1.5", "cached_input": "0.15", "output": "6"})


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


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ok", "client_abort", "rejected", "lost", COLD]),
            st.integers(0, 10**12),
            st.integers(0, 10**5),
            st.integers(0, 10**5),
            st.integers(0, 10**5),
        ),
        max_size=8,
    ),
    st.sampled_from([COST_PLUS, PER_TOKEN]),
)
def test_revenue_of_the_rows_is_what_rating_charges_for_all_of_them(
    rows: list[tuple[str, int, int, int, int]], plan: Tenant
) -> None:
    costs = [
        TenantCost(
            TenantQuarter(
                "t", "base", "e", status, i * QUARTER_NS, requests=1, input_tokens=uncached + cached, cached_tokens=cached, output_tokens=out
            ),
            "h200", 1, Decimal("3.141592"), Decimal(steps).scaleb(-12), Decimal(0), Decimal(0),
        )
        for i, (status, steps, uncached, cached, out) in enumerate(rows)
    ]  # fmt: skip
    asked = total(revenue(row, plan, BOOK)[1] for row in costs)
    assert abs(asked - round_places(rate_tenant(plan, costs, BOOK).amount, 18)) <= Decimal(len(costs)).scaleb(-18)


def test_who_is_not_in_the_catalog_pays_nothing() -> None:
    row = TenantCost(
        TenantQuarter("t", "base", "e", "ok", 0), "h200", 1, Decimal(1), Decimal(1), Decimal(0), Decimal(0)
    )
    assert revenue(row, None, BOOK) == ("provider", Decimal(0))
    assert revenue(row, COST_PLUS, BOOK) == ("tenant", Decimal("1.25"))


def test_attempts_without_engine_time_cost_nothing() -> None:
    row = without_engine_time(TenantQuarter("t", "base", "", "rejected", 0, requests=3), Decimal(0))
    assert row.quarter.requests == 3
    assert row.gpu_hours == row.cost == 0
