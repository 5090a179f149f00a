"""What a tenant's month costs and what its plan charges: every digit kept, the table of who pays followed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.cost.attribution import EngineHourCost, IdleTime, TenantCost
from billing.cost.facts import COLD, TenantQuarter
from billing.errors import PayerMissing, PriceMissing, RowsInvalid
from billing.exact.money import product, round_places, total
from billing.exact.periods import to_ns
from billing.exact.quantities import gpu_hours
from billing.invoice.plans import ChargeKind
from billing.invoice.prices import gpu_price
from billing.invoice.rating import ledger_hash, rate_tenant, revenue
from catalog.durations import HOUR_NS, QUARTER_NS
from catalog.model import GpuPrice, PriceBook, Tenant

D = Decimal
SECOND = 1_000_000_000


def row(status: str = "ok", adapter: str = "a", price: str = "3600", gpu_type: str = "h200", **ns: int) -> TenantCost:
    quarter = TenantQuarter("clinic", adapter, "e0", status, 0, **ns)
    parts = (gpu_hours(part, 1) for part in (quarter.base_ns, quarter.adapter_ns, quarter.cold_ns))
    return TenantCost(quarter, gpu_type, 1, D(price), *parts)


def test_cost_plus_charges_the_formula_and_the_margin(clinic: Tenant, book: PriceBook) -> None:
    rated = rate_tenant(
        clinic,
        [
            row(
                base_ns=8 * SECOND,
                adapter_ns=2 * SECOND,
                kv_saved_base_ns=3 * SECOND,
                kv_saved_adapter_ns=SECOND,
                output_tokens=500,
            ),
            row(COLD, cold_ns=SECOND),
        ],
        book,
    )
    assert {charge.kind: round(charge.amount, 6) for charge in rated.charges} == {
        ChargeKind.BASE: 11,
        ChargeKind.LORA: 3,
        ChargeKind.CACHE: -4,
        ChargeKind.COLD: 1,
        ChargeKind.MARGIN: D("2.75"),
    }
    assert rated.statement.measured.gpu_ns == 11 * SECOND
    assert rated.output_tokens == 500


NS = st.integers(0, HOUR_NS)


@given(st.lists(st.tuples(NS, NS, NS, NS, NS), max_size=20), st.decimals("0.000001", 10**6, places=6))
def test_the_cache_credit_cancels_exactly_before_rounding(
    clinic: Tenant, book: PriceBook, parts: list[tuple[int, int, int, int, int]], price: Decimal
) -> None:
    names = ("base_ns", "adapter_ns", "cold_ns", "kv_saved_base_ns", "kv_saved_adapter_ns")
    rows = [
        row("ok", f"a{i}", str(price), "h200", **dict(zip(names, part, strict=True))) for i, part in enumerate(parts)
    ]
    plan = clinic.plan.model_copy(update={"margin": D(0)})
    rated = rate_tenant(clinic.model_copy(update={"plan": plan}), rows, book)
    cost = total(r.cost for r in rows)
    assert rated.amount == rated.statement.measured.cost == cost
    terms = rated.statement
    assert terms.t_b.gpu_ns + terms.t_a.gpu_ns - terms.t_kv.gpu_ns + terms.t_cold.gpu_ns == terms.measured.gpu_ns
    assert total((terms.t_b.cost, terms.t_a.cost, terms.t_kv.cost.copy_negate(), terms.t_cold.cost)) == cost
    assert total(adapter.charged for adapter in rated.adapters) == cost


def test_cost_is_attributed_whoever_pays_and_the_charge_follows_the_table(clinic: Tenant, book: PriceBook) -> None:
    statuses = ("ok", "client_abort", "bad_request", "rejected", "server_error", "timeout", "lost")
    rated = rate_tenant(clinic, [row(status, base_ns=SECOND, requests=1) for status in statuses], book)
    assert round(rated.statement.measured.cost, 6) == 7
    assert round(rated.amount, 6) == D("2.5")  # ok and client_abort, with 25 % margin
    assert {s.status: s.payer for s in rated.statuses if s.payer == "tenant"} == {
        "ok": "tenant",
        "client_abort": "tenant",
    }
    assert rated.requests == 7


def test_per_token_partitions_the_prompt_and_charges_no_gpu_time(shop: Tenant, book: PriceBook) -> None:
    # public report BerriAI/litellm#14849: cached tokens were charged at the full and at the cached price
    prices = {"input": D("1.25"), "cached_input": D("0.625"), "output": D("10")}
    tenant = shop.model_copy(update={"plan": shop.plan.model_copy(update=prices)})
    tokens = {"input_tokens": 262_960, "cached_tokens": 257_955, "output_tokens": 1_744}
    rows = [replace(row(), quarter=TenantQuarter("shop", "a", "e0", "ok", 0, base_ns=SECOND, **tokens))]
    rated = rate_tenant(tenant, rows, book)
    assert rated.amount == D("0.184918125")
    assert [charge.kind for charge in rated.charges] == [ChargeKind.INPUT, ChargeKind.CACHED_INPUT, ChargeKind.OUTPUT]


def test_tokens_of_a_failed_attempt_are_counted_but_not_charged(shop: Tenant, book: PriceBook) -> None:
    failed = TenantQuarter("shop", "a", "e0", "server_error", 0, base_ns=SECOND, input_tokens=10, output_tokens=35)
    rated = rate_tenant(shop, [replace(row(base_ns=SECOND), quarter=failed)], book)
    assert (rated.amount, rated.output_tokens) == (D(0), 35)
    assert rated.statement.measured.cost > 0


def test_each_gpu_type_and_price_has_its_own_term_lines(clinic: Tenant, book: PriceBook) -> None:
    rows = [
        row(base_ns=SECOND, price="7200"),
        row(adapter="b", base_ns=SECOND, price="3600"),
        row(adapter="c", base_ns=SECOND, price="1", gpu_type="cpu"),
    ]
    base = [charge for charge in rate_tenant(clinic, rows, book).charges if charge.kind is ChargeKind.BASE]
    assert [(charge.gpu_type, charge.price) for charge in base] == [
        ("cpu", D(1)),
        ("h200", D(3600)),
        ("h200", D(7200)),
    ]


def test_an_idle_share_is_charged_with_margin_by_cost_plus_only(clinic: Tenant, shop: Tenant, book: PriceBook) -> None:
    idle = [IdleTime("h200", D("3.6"), D("10"))]
    assert rate_tenant(clinic, [], book, idle).amount == D(45)
    assert rate_tenant(shop, [], book, idle).amount == 0


def test_a_missing_price_names_who_used_what_and_when(book: PriceBook) -> None:
    before = to_ns(datetime(2025, 12, 31, 23, 59, tzinfo=UTC))
    with pytest.raises(PriceMissing) as caught:
        gpu_price(book, "h200", before, tenant="clinic", adapter="icd10-coder")
    assert str(caught.value) == (
        "could not price GPU time used by tenant clinic, adapter icd10-coder: price book 2026-h2 has no price for GPU type "
        "h200 at 2025-12-31T23:59:00+00:00; add an entry to prices.gpu_hours that starts no later"
    )
    with pytest.raises(PriceMissing, match="GPU type h20 at"):
        gpu_price(book, "h20", before + HOUR_NS)


def test_a_price_change_holds_from_its_start_on(book: PriceBook) -> None:
    change = datetime(2026, 10, 1, tzinfo=UTC)
    later = GpuPrice(gpu_type="h200", start=change, per_hour=D("4"))
    changed = book.model_copy(update={"gpu_hours": (*book.gpu_hours, later)})
    assert [gpu_price(changed, "h200", to_ns(change) + ns) for ns in (-1, 0)] == [D(360), D(4)]


def test_a_status_without_a_payer_is_an_error(clinic: Tenant, book: PriceBook) -> None:
    short = book.model_copy(update={"charged": {"ok": "tenant"}})
    with pytest.raises(PayerMissing, match="who pays for status 'timeout'"):
        rate_tenant(clinic, [row("timeout")], short)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([replace(row(), quarter=TenantQuarter("shop", "a", "e0", "ok", 0))], "belongs to tenant shop"),
        ([row(), row()], "is there twice"),
        ([row(input_tokens=25, cached_tokens=75)], "75 cached of 25 input tokens"),
    ],
)
def test_rows_that_cannot_be_right_are_refused(
    clinic: Tenant, book: PriceBook, rows: list[TenantCost], says: str
) -> None:
    with pytest.raises(RowsInvalid, match=says):
        rate_tenant(clinic, rows, book)


def test_the_ledger_hash_knows_facts_not_their_order_or_notation(engine_hours: list[EngineHourCost]) -> None:
    rows = [r for hour in engine_hours for r in hour.tenants]
    stored = [replace(r, price=r.price.quantize(D("1e-18"))) for r in reversed(rows)]
    assert ledger_hash(stored) == ledger_hash(rows)
    changed = [*rows[:-1], replace(rows[-1], quarter=replace(rows[-1].quarter, output_tokens=1))]
    assert ledger_hash(changed) != ledger_hash(rows)


def test_every_row_costs_its_quantity_times_its_price(engine_hours: list[EngineHourCost]) -> None:
    for r in (r for hour in engine_hours for r in hour.tenants):
        assert r.cost == product(r.gpu_hours, r.price)


BOOK = PriceBook(
    version="b",
    gpu_hours=(GpuPrice(gpu_type="h200", start=datetime(2026, 1, 1, tzinfo=UTC), per_hour=Decimal("3.141592")),),
)


def tenant(plan: dict[str, str]) -> Tenant:
    return Tenant.model_validate({"id": "t", "name": "T", "slo": {"p99_seconds": "1"}, "plan": plan})


COST_PLUS = tenant({"kind": "cost_plus", "margin": "0.25"})
PER_TOKEN = tenant({"kind": "per_token", "input": "1.5", "cached_input": "0.15", "output": "6"})


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
