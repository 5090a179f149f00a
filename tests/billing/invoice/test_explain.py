"""Every cent of a line has attempts, or a reason why not; and all sums are exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.cost.attribution import EngineHourCost, IdleTime, TenantCost
from billing.cost.facts import COLD
from billing.errors import ExplanationInvalid
from billing.exact.money import deal, total
from billing.invoice.explain import (
    AGREED,
    LATER,
    MEMORY,
    NO_ATTEMPT,
    NO_FOLLOWER,
    AttemptId,
    AttemptQuarter,
    explain_invoice,
    explain_request,
)
from billing.invoice.invoice import Invoice
from billing.invoice.lines import Line
from billing.invoice.plans import ChargeKind
from billing.invoice.prices import Exchange
from billing.invoice.rating import rate_tenant
from catalog.model import PriceBook, Tenant

D = Decimal
_DEALT = (
    "base_ns",
    "adapter_ns",
    "kv_saved_base_ns",
    "kv_saved_adapter_ns",
    "requests",
    "input_tokens",
    "cached_tokens",
    "output_tokens",
)


def own_rows(hours: list[EngineHourCost], tenant: str) -> list[TenantCost]:
    return [row for hour in hours for row in hour.tenants if row.quarter.tenant == tenant]


def attempts_of(rows: list[TenantCost], weights: list[int]) -> list[AttemptQuarter]:
    """The rows cut among as many attempts as there are weights, every number dealt by them."""
    parts = []
    for row in (row for row in rows if row.quarter.status != COLD):
        quarter = row.quarter
        numbers = {name: deal(getattr(quarter, name), weights) for name in _DEALT}
        for index in range(len(weights)):
            parts.append(
                AttemptQuarter(
                    AttemptId("gw", index, f"req-{index}"),
                    replace(quarter, **{name: dealt[index] for name, dealt in numbers.items()}),  # type: ignore[arg-type]
                )
            )
    return parts


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=6).filter(any))
def test_shares_and_rounding_come_to_every_line_whatever_the_attempts(
    cost_plus: Invoice, per_token: Invoice, engine_hours: list[EngineHourCost], weights: list[int]
) -> None:
    for invoice in (cost_plus, per_token):
        rows = own_rows(engine_hours, invoice.tenant)
        explained = explain_invoice(invoice, rows, attempts_of(rows, weights))
        assert [one.line for one in explained] == list(invoice.lines)
        for one in explained:
            assert total((*(share.amount for share in one.shares), one.rounding)) == one.line.amount
            assert abs(one.rounding) <= D("0.005")
            assert {share.why for share in one.shares if share.attempt is None} <= {NO_ATTEMPT, NO_FOLLOWER, AGREED}
        there = sum(len(one.shares) for one in explained)
        back = sum(len(explain_request(explained, f"req-{index}")) for index in range(len(weights)))
        assert back == there - sum(share.attempt is None for one in explained for share in one.shares)


def test_one_attempt_alone_carries_the_whole_line(cost_plus: Invoice, engine_hours: list[EngineHourCost]) -> None:
    rows = own_rows(engine_hours, "clinic")
    explained = explain_invoice(cost_plus, rows, attempts_of(rows, [1]))
    for one in explained:
        (share,) = one.shares
        assert share.attempt == AttemptId("gw", 0, "req-0")
        assert share.amount == one.line.exact
    assert [line.kind for line, _ in explain_request(explained, "req-0")] == [line.kind for line in cost_plus.lines]


def test_without_attempts_everything_has_a_reason(cost_plus: Invoice, engine_hours: list[EngineHourCost]) -> None:
    explained = explain_invoice(cost_plus, own_rows(engine_hours, "clinic"), [])
    whys = {one.line.kind: {share.why for share in one.shares} for one in explained}
    assert whys[ChargeKind.BASE] == whys[ChargeKind.CACHE] == {NO_ATTEMPT}
    assert whys[ChargeKind.COLD] == {NO_FOLLOWER}
    assert whys[ChargeKind.MARGIN] == {NO_ATTEMPT, NO_FOLLOWER}


def test_what_was_learned_since_the_cut_off_is_a_share_of_its_own(
    cost_plus: Invoice, engine_hours: list[EngineHourCost]
) -> None:
    rows = own_rows(engine_hours, "clinic")
    fewer = rows[1:]
    explained = explain_invoice(cost_plus, fewer, attempts_of(fewer, [1, 1]))
    (later,) = (share for share in explained[0].shares if share.why == LATER)
    assert later.quantity == rows[0].t_b_gpu_hours


def test_idle_is_dealt_by_measured_time_or_to_the_memory_it_was_held_for(
    clinic: Tenant, book: PriceBook, draft: Callable[..., Invoice], engine_hours: list[EngineHourCost]
) -> None:
    rows = own_rows(engine_hours, "clinic")
    template = draft(clinic).lines[0]
    idle = replace(template, kind=ChargeKind.IDLE, quantity=D("0.5"), exact=D(180), amount=D("180.00"))
    rated = rate_tenant(clinic, rows, book, [IdleTime("h200", D(360), D("0.5"))])
    assert ChargeKind.IDLE in {charge.kind for charge in rated.charges}
    for policy, whys in (("usage", {None}), ("residency", {MEMORY})):
        invoice = replace(draft(clinic), lines=(idle,), idle_policy=policy)  # type: ignore[arg-type]
        (one,) = explain_invoice(invoice, rows, attempts_of(rows, [3, 1]))
        assert {share.why for share in one.shares} == whys
        assert total(share.amount for share in one.shares) == 180


def test_discounts_go_to_whom_they_were_given_for_and_agreed_sums_to_nobody(
    cost_plus: Invoice, engine_hours: list[EngineHourCost]
) -> None:
    rows = own_rows(engine_hours, "clinic")

    def line(kind: ChargeKind, quantity: str, price: str, amount: str) -> Line:
        return replace(
            cost_plus.lines[0], kind=kind, quantity=D(quantity), unit_price=D(price), exact=D(quantity) * D(price),
            amount=D(amount), gpu_type=None, unit="EUR",
        )  # fmt: skip

    discount = line(ChargeKind.DISCOUNT, "-179.46", "0.1", "-17.95")
    fee = line(ChargeKind.COMMITMENT, "1", "80", "80.00")
    invoice = replace(cost_plus, lines=(*cost_plus.lines, discount, fee))
    *_, discounted, agreed = explain_invoice(invoice, rows, attempts_of(rows, [3, 1]))
    assert total(share.quantity for share in discounted.shares) == D("-179.46")
    assert {share.attempt.seq for share in discounted.shares if share.attempt} == {0, 1}
    assert [share.why for share in agreed.shares] == [AGREED]


def test_shares_are_in_the_currency_of_the_invoice(cost_plus: Invoice, engine_hours: list[EngineHourCost]) -> None:
    rate = Exchange("EUR", "USD", D("1.0842"), cost_plus.first_day, "ECB")
    lines = tuple(
        replace(line, exchange_rate=rate.rate, amount=round(line.exact * rate.rate, 2)) for line in cost_plus.lines
    )
    rows = own_rows(engine_hours, "clinic")
    for one in explain_invoice(replace(cost_plus, lines=lines), rows, attempts_of(rows, [1, 2])):
        assert total(share.amount for share in one.shares) == one.line.converted


def test_rows_and_attempts_of_somebody_else_are_refused(cost_plus: Invoice, engine_hours: list[EngineHourCost]) -> None:
    rows = own_rows(engine_hours, "clinic")
    with pytest.raises(ExplanationInvalid, match="a row belongs to shop"):
        explain_invoice(cost_plus, own_rows(engine_hours, "shop"), [])
    attempt, quarter = attempts_of(rows, [1])[0]
    stray = AttemptQuarter(attempt, replace(quarter, start_ns=0))
    with pytest.raises(ExplanationInvalid, match="could not explain attempt req-0: there is no cost row"):
        explain_invoice(cost_plus, rows, [stray])
    long = attempts_of(rows, [1])
    more = replace(long[0].quarter, base_ns=long[0].quarter.base_ns + 1)
    with pytest.raises(ExplanationInvalid, match="could not explain base_ns"):
        explain_invoice(cost_plus, rows, [long[0]._replace(quarter=more), *long[1:]])
