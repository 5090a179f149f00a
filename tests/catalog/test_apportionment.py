"""Parts add up to the whole, and none is further than one unit from its exact share."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from catalog.apportionment import deal


@given(st.integers(-(10**30), 10**30), st.lists(st.integers(0, 10**24), min_size=1).filter(any))
def test_dealt_units_sum_to_the_whole_and_stay_within_one_of_their_share(units: int, weights: list[int]) -> None:
    parts = deal(units, weights)
    assert sum(parts) == units
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part - Fraction(units * weight, sum(weights))) < 1
        assert weight or not part


@given(st.integers(0, 10**12), st.lists(st.tuples(st.integers(0, 10), st.text(max_size=2)), min_size=1))
def test_what_is_left_goes_by_remainder_then_key_then_place(units: int, parts: list[tuple[int, str]]) -> None:
    weights, keys = [weight for weight, _ in parts], [key for _, key in parts]
    shared = weights if any(weights) else [1] * len(weights)
    exact = [Fraction(units * weight, sum(shared)) for weight in shared]
    order = sorted(range(len(parts)), key=lambda i: (exact[i] // 1 - exact[i], keys[i], i))
    first = set(order[: units - sum(share // 1 for share in exact)])
    assert deal(units, weights, keys) == [share // 1 + (i in first) for i, share in enumerate(exact)]
    assert deal(-units, weights, keys) == [-part for part in deal(units, weights, keys)]


def test_what_is_left_goes_to_the_largest_fraction_then_the_smaller_key() -> None:
    assert deal(10, [1, 1, 1], ["c", "a", "b"]) == [3, 4, 3]
    assert deal(7, [5, 3]) == [4, 3]
    assert deal(5, [0, 0]) == [3, 2]
    assert deal(0, []) == []
