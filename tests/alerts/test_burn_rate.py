from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from alerts.promises import DAY, DEFAULT


def test_the_rows_spend_what_the_workbook_says_of_a_thirty_day_budget() -> None:
    assert [Fraction(row.factor) * row.long / (30 * DAY) for row in DEFAULT.budget.rows] == [
        Fraction(2, 100),
        Fraction(5, 100),
        Fraction(1, 10),
        Fraction(1, 10),
    ]
    assert all(row.short * 12 == row.long for row in DEFAULT.budget.rows)


def test_thresholds_are_exact_decimals() -> None:
    assert [row.threshold(DEFAULT.budget.share) for row in DEFAULT.budget.rows] == list(
        map(Decimal, ("0.144", "0.06", "0.03", "0.01"))
    )
