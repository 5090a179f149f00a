"""GPU-hours: dealt parts sum to the engine-hour's own quantity exactly."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.errors import AmountInvalid
from billing.exact.quantities import deal_gpu_hours, gpu_hours
from catalog.durations import HOUR_NS

PARTS = st.dictionaries(st.integers(0, 50), st.integers(0, HOUR_NS), min_size=1)


@given(PARTS, st.integers(1, 16))
def test_parts_sum_to_the_hour_and_differ_from_their_own_quantity_by_less_than_a_step(
    parts: dict[int, int], gpus: int
) -> None:
    dealt = deal_gpu_hours(parts, gpus)
    assert list(dealt) == list(parts)
    assert sum(dealt.values()) == gpu_hours(sum(parts.values()), gpus)
    for key, ns in parts.items():
        assert abs(Fraction(dealt[key]) - Fraction(ns * gpus, HOUR_NS)) < Fraction(1, 10**12)
        assert ns or not dealt[key]


def test_a_whole_hour_is_one_gpu_hour_per_gpu() -> None:
    assert gpu_hours(HOUR_NS, 8) == Decimal(8)
    assert gpu_hours(HOUR_NS // 4, 4) == Decimal(1)


def test_the_hours_own_quantity_rounds_half_even() -> None:
    assert gpu_hours(9, 1) == Decimal("0.000000000002")  # 2.5 steps
    assert gpu_hours(27, 1) == Decimal("0.000000000008")  # 7.5 steps
    assert gpu_hours(1, 1) == Decimal(0)


def test_left_over_steps_go_to_the_largest_fraction_then_to_the_earlier() -> None:
    thirds = deal_gpu_hours({"c": HOUR_NS // 3, "a": HOUR_NS // 3, "b": HOUR_NS // 3}, 1)
    assert thirds == {
        "c": Decimal("0.333333333334"),
        "a": Decimal("0.333333333333"),
        "b": Decimal("0.333333333333"),
    }


def test_negative_time_is_an_error_not_a_clamp() -> None:
    with pytest.raises(AmountInvalid, match="-1 ns"):
        deal_gpu_hours({"a": 5, "b": -1}, 1)
