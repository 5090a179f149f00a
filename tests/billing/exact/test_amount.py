from __future__ import annotations

from decimal import Decimal, Inexact, localcontext
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.errors import AmountInvalid
from billing.exact.amount import Amount, read_amount

D = Decimal
CENTS = st.integers(-(10**20), 10**20).map(lambda units: Amount(D(units).scaleb(-18), "EUR"))


@given(CENTS, CENTS, CENTS)
def test_amounts_add_up_like_fractions_whatever_the_context_rounds_to(a: Amount, b: Amount, c: Amount) -> None:
    with localcontext(prec=3):
        assert Fraction((a + b - c).value) == Fraction(a.value) + Fraction(b.value) - Fraction(c.value)
        assert (a - a, a - b, bool(a - a)) == (Amount(D(0), "EUR"), -(b - a), False)
        assert Fraction((a * D("0.19") * 3).value) == Fraction(a.value) * Fraction(57, 100)
        assert (a < b) == (Fraction(a.value) < Fraction(b.value))
        assert max(a, b, c) >= min(a, b, c)
        assert Amount.sum([a.value, b.value], "EUR") == sum((a, b), a * 0) == a + b


def test_a_fraction_is_exact_or_raises() -> None:
    assert Amount(D("10.00"), "EUR") * Fraction(3, 8) == Amount(D("3.75"), "EUR")
    with pytest.raises(Inexact):
        Amount(D("10.00"), "EUR") * Fraction(1, 3)
    assert str((-Amount(D("0.00"), "EUR")).value) == "0.00"


def test_it_is_rounded_and_dealt_in_the_minor_unit_of_its_currency() -> None:
    assert str(Amount(D("0.005"), "EUR").rounded().value) == "0.01"
    assert str((Amount(D("100.5"), "JPY")).rounded().value) == "101"
    third = Amount(D("1"), "EUR")
    assert [str(part.value) for part in Amount(D("0.10"), "EUR").dealt([third] * 3)] == ["0.04", "0.03", "0.03"]


def test_two_currencies_never_meet() -> None:
    euro, dollar = Amount(D(1), "EUR"), Amount(D(1), "USD")
    assert euro != dollar
    attempts: list[Any] = [lambda: euro + dollar, lambda: euro - dollar, lambda: euro < dollar, lambda: euro >= dollar]
    attempts += [lambda: max(euro, dollar), lambda: sum((euro,), dollar), lambda: euro.dealt([dollar])]
    for attempt in attempts:
        with pytest.raises(AmountInvalid, match="convert one of them first"):
            attempt()
    odd: Any = 0.1
    with pytest.raises(TypeError):
        _ = euro * odd


@pytest.mark.parametrize(
    ("text", "value"), [("12.34", "12.34"), ("0", "0"), ("-3", "-3"), ("7" * 18 + "." + "1" * 18, None)]
)
def test_an_amount_is_read_as_it_is_written(text: str, value: str | None) -> None:
    assert read_amount(text) == D(value or text)


@pytest.mark.parametrize(
    "text", ["1e2", "٣", "NaN", "Infinity", "", " 1", "1_000", "1,5", "+1", ".5", "5.", "1.2.3", "12\n", "9" * 19]
)
def test_what_is_no_plain_amount_is_refused_in_words(text: str) -> None:
    with pytest.raises(AmountInvalid, match=r"is not an amount such as 12\.34"):
        read_amount(text)
