"""Numbers and days as people read them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from billing.documents.formats import (
    breakable,
    day,
    grouped,
    in_fours,
    instant,
    month,
    per_million,
    short_day,
    unit_price,
)

D = Decimal


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (1234567890123, "1,234,567,890,123"),
        (D("-1234.50"), "−1,234.50"),
        (D("1E+4"), "10,000"),
        (D("0.10"), "0.10"),
    ],
)
def test_digits_are_grouped_and_none_is_lost(number: int | Decimal, text: str) -> None:
    assert grouped(number) == text


def test_a_price_shows_every_digit_and_at_least_two() -> None:
    assert [unit_price(D(p)) for p in ("3.6", "3600.000000", "0.000001", "1E+3")] == [
        "3.60",
        "3,600.00",
        "0.000001",
        "1,000.00",
    ]


def test_small_prices_per_million_get_more_digits() -> None:
    values = [per_million(D(v), "EUR") for v in ("0.354814", "8.035722", "0", "15633.333333")]
    assert values == ["EUR 0.3548", "EUR 8.04", "EUR 0.00", "EUR 15,633.33"]
    assert per_million(None, "EUR") == "none delivered"


def test_days_do_not_depend_on_a_locale() -> None:
    assert (day(date(2026, 3, 9)), short_day(date(2026, 9, 30)), month("2026-12")) == (
        "9 March 2026",
        "30 Sep 2026",
        "December 2026",
    )
    assert instant(datetime(2026, 11, 3, 6, 0, 0, tzinfo=UTC)) == "2026-11-03 06:00 UTC"
    assert instant(datetime(2026, 11, 3, 6, 0, 7, tzinfo=UTC)) == "2026-11-03 06:00:07 UTC"


def test_long_words_may_wrap_and_short_ones_stay_whole() -> None:
    assert breakable("x" * 45).split("\u200b") == ["x" * 20, "x" * 20, "x" * 5]
    assert breakable("a" * 20 + " " + "b" * 20) == "a" * 20 + " " + "b" * 20
    assert in_fours("DE02120300000000202051") == "DE02 1203 0000 0000 2020 51"
