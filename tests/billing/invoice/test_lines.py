"""Lines are rounded once, tax once per rate, and nothing rounds below zero."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest

from billing.exact.money import total
from billing.invoice.invoice import Invoice
from billing.invoice.lines import Line, invoice_lines, percent, tax_groups
from billing.invoice.plans import Charge, ChargeKind
from billing.invoice.rating import RatedTenant, rate_tenant
from catalog.model import PriceBook, Tenant

D = Decimal


@pytest.fixture
def empty(clinic: Tenant, book: PriceBook) -> RatedTenant:
    return rate_tenant(clinic, [], book)


@pytest.fixture
def lines_of(empty: RatedTenant) -> Callable[..., tuple[Line, ...]]:
    def make(*amounts: str, currency: str = "EUR", minimum: str = "0") -> tuple[Line, ...]:
        charges = tuple(Charge(ChargeKind.BASE, D(amount), "GPU-hour", D(1)) for amount in amounts)
        return invoice_lines(replace(empty, charges=charges, currency=currency, minimum=D(minimum)), D("0.2"), None)

    return make


@pytest.mark.parametrize(
    ("currency", "exact", "amount"), [("JPY", "100.5", "101"), ("KWD", "1.0005", "1.001"), ("EUR", "0.004", "0.00")]
)
def test_a_line_rounds_once_to_its_currency(
    lines_of: Callable[..., tuple[Line, ...]], currency: str, exact: str, amount: str
) -> None:
    (line,) = lines_of(exact, currency=currency)
    assert (str(line.exact), str(line.amount)) == (exact, amount)


def test_the_sum_of_81_lines_is_the_sum_of_what_they_show(lines_of: Callable[..., tuple[Line, ...]]) -> None:
    lines = lines_of(*["284.846"] * 81)
    assert total(line.amount for line in lines) == D("284.85") * 81


@pytest.mark.parametrize(
    ("amounts", "rate", "tax"), [(("68.33", "68.33", "57.50", "85.00"), "0.20", "55.83"), (("14.29",), "0.24", "3.43")]
)
def test_tax_is_rounded_on_the_sum_of_rounded_lines(
    lines_of: Callable[..., tuple[Line, ...]], amounts: tuple[str, ...], rate: str, tax: str
) -> None:
    lines = [replace(line, tax_rate=D(rate)) for line in lines_of(*amounts)]
    (group,) = tax_groups(lines, "EUR")
    assert (group.base, group.amount) == (sum(map(D, amounts)), D(tax))


def test_each_rate_has_its_own_tax(lines_of: Callable[..., tuple[Line, ...]]) -> None:
    first, second, third = lines_of("0.03", "0.03", "10")
    groups = tax_groups([replace(third, tax_rate=D("0.07")), first, second], "EUR")
    assert [(g.rate, g.base, g.amount) for g in groups] == [
        (D("0.07"), D("10.00"), D("0.70")),
        (D("0.2"), D("0.06"), D("0.01")),
    ]


def test_a_minimum_tops_up_what_the_lines_show(lines_of: Callable[..., tuple[Line, ...]]) -> None:
    *_, top_up = lines_of("1.004", "1.004", minimum="5")
    assert (top_up.kind, top_up.amount) == (ChargeKind.MINIMUM, D("3.00"))
    assert [line.kind for line in lines_of("5", minimum="5")] == [ChargeKind.BASE]
    assert [line.kind for line in lines_of(minimum="5")] == [ChargeKind.MINIMUM]


def test_lines_that_round_apart_do_not_go_below_zero(lines_of: Callable[..., tuple[Line, ...]]) -> None:
    lines = lines_of("0.014", "0.014", "-0.028")
    assert [str(line.amount) for line in lines] == ["0.01", "0.01", "-0.03", "0.01"]
    assert lines[-1].kind is ChargeKind.ROUNDING


def test_idle_says_by_what_it_was_shared(empty: RatedTenant) -> None:
    idle = Charge(ChargeKind.IDLE, D(1), "GPU-hour", D(1), "h200")
    rated = replace(empty, charges=(idle,), idle_policy="residency")
    assert invoice_lines(rated, D(0), None)[0].note == "by adapter memory"


def test_several_gpu_types_are_told_apart_and_lora_shows_its_share(empty: RatedTenant) -> None:
    charges = tuple(Charge(ChargeKind.LORA, D(1), "GPU-hour", D(1), gpu) for gpu in ("a100", "h200"))
    lines = invoice_lines(replace(empty, charges=charges), D(0), D("0.125"))
    assert [line.note for line in lines] == ["a100, 12.5 % of this month's cost", "h200, 12.5 % of this month's cost"]


def test_only_the_cache_credit_is_marked_estimated(cost_plus: Invoice) -> None:
    assert [line.kind for line in cost_plus.lines if line.estimated] == [ChargeKind.CACHE]


def test_percent_is_written_short() -> None:
    assert [percent(D(text)) for text in ("0.19", "0.125", "1", "0", "0.0750")] == [
        "19 %",
        "12.5 %",
        "100 %",
        "0 %",
        "7.5 %",
    ]
