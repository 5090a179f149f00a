"""An attempt is charged here as the ledger will charge it, in the month in which the invoice will have it."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from billing.cost.attribution import TenantCost
from billing.cost.facts import TenantQuarter
from billing.exact.periods import BillingMonth, to_ns
from billing.exact.quantities import gpu_hours
from billing.invoice.prices import book_as_of, gpu_price
from billing.invoice.rating import revenue
from catalog import tariff
from catalog.durations import HOUR_NS, QUARTER_NS, SECOND_NS
from catalog.model import CostPlus, DatedTerms, GpuPrice, PerToken, Plan, PriceBook, Slo, Tenant
from serving.policy.admission import Ask
from serving.policy.charges import Terms, charge, hold
from telemetry.usage import Slice, Status, UsageRecord

BY_TOKEN = PerToken(kind="per_token", input=Decimal(2), cached_input=Decimal(1), output=Decimal(1_000_000))
"""One unit of money per output token."""


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND_NS


NOON = at("2026-10-15T12:00")


def book(version: str = "v1", price: str = "3600", **fields: Any) -> PriceBook:
    hours = (GpuPrice(gpu_type="demo", start=datetime(2026, 1, 1, tzinfo=UTC), per_hour=Decimal(price)),)
    return PriceBook(version=version, gpu_hours=hours, **fields)


def terms(budget: str = "10", plan: Plan = BY_TOKEN, zone: str = "UTC", **fields: Any) -> Terms:
    tenant = Tenant(
        id="acme",
        name="Acme",
        slo=Slo(p99_seconds=Decimal(1)),
        plan=plan,
        time_zone=zone,
        terms=fields.pop("dated", ()),
    )
    return Terms(Decimal(budget), tenant, tariff.calendar(tenant), **{"books": (book(),), "gpu_type": "demo", **fields})


def record(
    seq: int = 0,
    output: int = 1,
    ended_ns: int = NOON,
    status: Status = Status.OK,
    slices: tuple[Slice, ...] | None = (),
    **fields: Any,
) -> UsageRecord:
    made = UsageRecord("gw-1", seq, "r", "clinic", ended_ns, ended_ns, status, gpu_type="demo", gpu_count=2)
    return replace(made, output_tokens_computed=output, output_tokens_delivered=output, slices=slices, **fields)


def test_an_attempt_is_charged_by_the_plan_of_its_end_and_a_month_of_two_zones_begins_once() -> None:
    dearer = BY_TOKEN.model_copy(update={"output": Decimal(3_000_000)})
    dated = (
        DatedTerms.model_validate({"effective_from": "2026-10-15T12:00:00Z", "plan": dearer}),
        DatedTerms.model_validate({"effective_from": "2026-10-20", "time_zone": "Asia/Kolkata"}),
    )
    by = terms(dated=dated)
    assert charge(by, record(ended_ns=NOON - 1)) == {"2026-10": Fraction(1)}
    assert charge(by, record(ended_ns=NOON)) == {"2026-10": Fraction(3)}
    assert charge(by, record(ended_ns=at("2026-10-31T20:00"))) == {"2026-10": Fraction(3)}
    assert charge(by, record(ended_ns=at("2026-11-30T20:00"))) == {"2026-12": Fraction(3)}


def test_measured_time_is_charged_at_the_price_of_its_hour_with_the_margin() -> None:
    plan = CostPlus(kind="cost_plus", margin=Decimal("0.25"))
    dearer = book("v2", "7200", effective_from=datetime(2026, 10, 15, 12, tzinfo=UTC))
    agreed = terms(plan=plan, books=(book(), dearer))
    slices = (
        Slice(NOON - QUARTER_NS, 1_000, 500, 10**9, 77, 77),
        Slice(NOON, 2_000, 0, 0),
    )
    found = charge(agreed, record(slices=slices))
    assert found == {"2026-10": Fraction((1_500 * 1 + 2_000 * 2) * 2, 10**9) * Fraction(5, 4)}


def test_an_attempt_over_the_turn_is_charged_in_both_months_by_time_and_in_the_one_of_its_end_by_token() -> None:
    turn = at("2026-10-31T23:00")  # midnight in Berlin
    slices = Slice(turn - QUARTER_NS, 10**9, 0, 0), Slice(turn, 3 * 10**9, 0, 0)
    ended = record(output=3, ended_ns=turn + SECOND_NS, slices=slices)
    by_time = terms(plan=CostPlus(kind="cost_plus"), zone="Europe/Berlin")
    assert charge(by_time, ended) == {"2026-10": Fraction(2), "2026-11": Fraction(6)}
    assert charge(terms(zone="Europe/Berlin"), ended) == {"2026-11": Fraction(3)}


def test_tokens_are_charged_as_delivered_and_cached_ones_apart() -> None:
    found = charge(terms(), record(output=3, input_tokens=1_500_000, cached_tokens=500_000))
    assert found == {"2026-10": 3 + 2 + Fraction(1, 2)}


@pytest.mark.parametrize("status", list(Status))
def test_what_the_provider_pays_is_free(status: Status) -> None:
    slices = (Slice(NOON, 10**9, 0, 0),)
    paid = book().charged[status.value] == "tenant"
    for plan in (BY_TOKEN, CostPlus(kind="cost_plus")):
        assert bool(charge(terms(plan=plan), record(status=status, slices=slices))) is paid
    unknown = charge(terms(plan=CostPlus(kind="cost_plus")), record(status=status, slices=None))
    assert unknown == (None if paid else {})


def test_a_gpu_without_a_price_neither_charges_nor_refuses() -> None:
    agreed = terms("0", CostPlus(kind="cost_plus"), gpu_type="h200")
    assert charge(agreed, record(slices=(Slice(NOON, 10**9, 0, 0),), gpu_type="h200")) == {}
    assert hold(agreed, Ask(1000, 1), 10**7, NOON) == 0


def test_a_hold_is_all_that_the_request_asks_for() -> None:
    assert hold(terms(), Ask(1_000_003, 1, 1_000_000), 0, NOON) == 3 + 2
    by_time = terms(plan=CostPlus(kind="cost_plus", margin=Decimal("0.5")), gpu_count=2)
    assert hold(by_time, Ask(100, 1), 10**7, NOON) == 3


COUNTS = st.integers(0, 10**6)
PRICES = st.decimals(0, 10**6, places=6)
PLANS = st.builds(CostPlus, kind=st.just("cost_plus"), margin=st.decimals(0, 4, places=6)) | st.builds(
    PerToken, kind=st.just("per_token"), input=PRICES, cached_input=PRICES, output=PRICES
)
EDGES = [NOON, *(at(f"2026-10-31T{turn}") for turn in ("18:30", "23:00")), at("2026-11-01T00:00")]
"""Around noon prices change; the others are the turn of the month in Kolkata, Berlin and UTC."""
CHANGES = st.integers(-4, 4).map(
    lambda quarters: datetime.fromtimestamp((NOON + quarters * QUARTER_NS) // SECOND_NS, UTC)
)
ENDED_NS = st.builds(
    lambda edge, quarters, ns: edge + quarters * QUARTER_NS + ns,
    st.sampled_from(EDGES),
    st.integers(-3, 3),
    st.integers(0, QUARTER_NS - 1),
)


@st.composite
def books(draw: st.DrawFn) -> tuple[PriceBook, ...]:
    """Versions with prices that change at some minute, of which some charge other statuses."""

    def payers() -> dict[str, str]:
        return {status.value: draw(st.sampled_from(["tenant", "provider"])) for status in Status}

    first, second = draw(CHANGES), draw(CHANGES)
    hours = [
        {"gpu_type": "demo", "start": datetime(2026, 1, 1, tzinfo=UTC), "per_hour": draw(PRICES)},
        {"gpu_type": "demo", "start": first, "per_hour": draw(PRICES)},
    ]
    later = PriceBook.model_validate(
        {"version": "v2", "gpu_hours": hours[:1], "effective_from": second, "charged": payers()}
    )
    return PriceBook.model_validate({"version": "v1", "gpu_hours": hours, "charged": payers()}), later


@settings(max_examples=300)
@given(
    books(),
    PLANS,
    st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kolkata"]),
    st.sampled_from(Status),
    ENDED_NS,
    st.data(),
)
def test_the_ledger_asks_for_every_record_what_the_gateway_charged(
    versions: tuple[PriceBook, ...], plan: Plan, zone: str, status: Status, ended_ns: int, data: st.DataObject
) -> None:
    # 18 ns of one GPU are five steps of a quantity: what is left out is the rounding of quantities, which has tests of its own
    times = [data.draw(COUNTS) * 18 for _ in range(4)]
    quarter = ended_ns - ended_ns % QUARTER_NS
    slices = Slice(quarter - QUARTER_NS, times[0], times[1], 99), Slice(quarter, times[2], times[3], 99)
    cached, uncached, output = (data.draw(COUNTS) for _ in range(3))
    ended = record(
        output=output,
        ended_ns=ended_ns,
        status=status,
        slices=slices,
        input_tokens=cached + uncached,
        cached_tokens=cached,
    )
    agreed = terms(plan=plan, zone=zone, books=versions)
    tenant = Tenant.model_validate({"id": "clinic", "name": "C", "slo": {"p99_seconds": "1"}, "plan": plan})

    asked: dict[str, Fraction] = {}
    for part in slices:
        counts = {"input_tokens": cached + uncached, "cached_tokens": cached, "output_tokens": output}
        row = TenantQuarter(
            "clinic", "base", "e", status.value, part.start_ns, part.base_ns, part.adapter_ns,
            **(counts if part.start_ns == quarter else {}),
        )  # fmt: skip
        hour = datetime.fromtimestamp(part.start_ns // HOUR_NS * 3600, UTC)
        held = book_as_of(versions, hour, datetime.fromtimestamp(ended_ns // SECOND_NS, UTC))
        price = gpu_price(held, "demo", to_ns(hour))
        cost = TenantCost(
            row, "demo", 2, price, gpu_hours(part.base_ns, 2), gpu_hours(part.adapter_ns, 2), Decimal(0)
        )  # fmt: skip
        payer, amount = revenue(cost, tenant, held)
        assert payer == held.charged[status.value]
        month = BillingMonth.at(part.start_ns, zone).text
        asked[month] = asked.get(month, Fraction(0)) + Fraction(amount)
    charged = charge(agreed, ended)
    assert charged is not None
    dust = Fraction(len(slices), 2 * 10**18) if isinstance(plan, CostPlus) else 0  # rows are kept to 18 decimals
    for month in asked.keys() | charged.keys():
        assert abs(asked.get(month, Fraction(0)) - charged.get(month, Fraction(0))) <= dust
