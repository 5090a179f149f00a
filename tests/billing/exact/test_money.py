"""Rounding per currency and splits that add up, by the rules printed on the invoice."""

from __future__ import annotations

from decimal import Decimal, FloatOperation, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.errors import AmountInvalid
from billing.exact.money import allocate, deal, minor_units, negated, plain, product, ratio, round_currency, total

D = Decimal


@pytest.mark.parametrize(
    ("amount", "currency", "rounded"),
    [
        ("100.5", "JPY", "101"),
        ("100.4999", "JPY", "100"),
        ("1.0005", "KWD", "1.001"),
        ("0.004", "EUR", "0.00"),
        ("0.005", "EUR", "0.01"),
        ("-0.005", "EUR", "-0.01"),
        ("-0.004", "EUR", "0.00"),
        ("2.345", "USD", "2.35"),
        ("12345678901234567890.123456789012345678", "EUR", "12345678901234567890.12"),
    ],
)
def test_money_rounds_half_up_to_the_currencys_minor_unit(amount: str, currency: str, rounded: str) -> None:
    assert str(round_currency(D(amount), currency)) == rounded


def test_minor_units_follow_iso_4217() -> None:
    assert {code: minor_units(code) for code in ("EUR", "JPY", "KWD", "CLF", "INR")} == {
        "EUR": 2,
        "JPY": 0,
        "KWD": 3,
        "CLF": 4,
        "INR": 2,
    }


def test_ten_cents_among_three_is_four_three_three() -> None:
    assert allocate(D("0.10"), [1, 1, 1], D("0.01")) == [D("0.04"), D("0.03"), D("0.03")]


def test_a_credit_over_81_lines_loses_no_cent() -> None:
    parts = allocate(D("-100.00"), [D("284.846")] * 81, D("0.01"))
    assert total(parts) == D("-100.00")
    assert set(parts) == {D("-1.24"), D("-1.23")}


@given(st.lists(st.decimals(0, 10**9, places=6), min_size=1).filter(any), st.integers(0, 10**12))
def test_allocation_by_decimal_weights_sums_exactly(weights: list[Decimal], cents: int) -> None:
    amount = D(cents).scaleb(-2)
    assert total(allocate(amount, weights, D("0.01"))) == amount


@pytest.mark.parametrize(
    ("amount", "weights", "says"),
    [
        ("1.005", [1, 1], "not a multiple of 0.01"),
        ("1.00", [0, 0], "all 2 weights are zero"),
        ("1.00", [], "all 0 weights are zero"),
        ("1.00", [2, -1], "weight -1 is negative"),
    ],
)
def test_an_impossible_split_is_an_error(amount: str, weights: list[int], says: str) -> None:
    with pytest.raises(AmountInvalid, match=says):
        allocate(D(amount), weights, D("0.01"))


def test_nothing_is_dealt_to_nobody() -> None:
    assert deal(0, []) == []
    assert deal(0, [0, 0]) == [0, 0]


def test_products_and_sums_keep_every_digit_whatever_the_callers_context() -> None:
    with localcontext() as context:
        context.prec = 6
        assert product(D("12345678901234.123456"), D("0.000000000001")) == D("12.345678901234123456")
        assert total([D("1e20"), D("1e-18")]) == D("100000000000000000000.000000000000000001")
        assert str(negated(D("0.00"))) == "0.00"


def test_a_float_cannot_enter_an_amount() -> None:
    with pytest.raises((TypeError, FloatOperation)):
        product(0.1, D(3))  # type: ignore[arg-type]


def test_plain_text_never_drops_a_digit() -> None:
    assert plain(D("3600.00"), 6) == "3600.000000"
    with pytest.raises(AmountInvalid, match="more than 2 decimals"):
        plain(D("1.005"), 2)


def test_a_ratio_of_nothing_is_unknown() -> None:
    assert ratio(D(1), D(3), 4) == D("0.3333")
    assert ratio(D(1), D(0), 4) is None
