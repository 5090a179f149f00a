"""An attempt is charged here as the ledger will charge it, in the month in which the invoice will have it."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from billing.exact.periods import BillingMonth
from catalog.durations import QUARTER_NS, SECOND_NS
from catalog.model import CostPlus, GpuPrice, PerToken, Plan, PriceBook
from serving.policy.admission import Ask
from serving.policy.charges import Terms, charge, hold, month_of, seconds_left
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
    return Terms(Decimal(budget), plan, zone, **{"books": (book(),), "gpu_type": "demo", **fields})


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


@given(st.integers(at("2020-01-01T00:00"), at("2035-01-01T00:00")), st.sampled_from(
    ["UTC", "Europe/Berlin", "Asia/Kolkata", "Asia/Kathmandu", "America/Havana", "America/Asuncion", "Pacific/Kiritimati"]
))  # fmt: skip
def test_months_are_those_of_the_invoices(at_ns: int, zone: str) -> None:
    month = BillingMonth.at(at_ns, zone)
    assert month_of(at_ns, zone) == month.text
    left = seconds_left(at_ns, zone)
    assert 0 <= left * SECOND_NS - (month.end_ns - at_ns) < SECOND_NS


def test_a_month_in_which_the_clocks_change_ends_when_it_ends() -> None:
    assert seconds_left(at("2026-10-24T22:00"), "Europe/Berlin") == (6 * 24 + 25) * 3600
    assert seconds_left(at("2026-03-27T23:00"), "Europe/Berlin") == (3 * 24 + 23) * 3600
    assert seconds_left(at("2026-10-31T18:29") + 1, "Asia/Kolkata") == 60


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
