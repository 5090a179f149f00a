"""`engine-step/2`: sums are exact, and the matrix products' pot is the Shapley value of max(weights, compute)."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from math import factorial

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from serving.metering.accounting import Accountant
from serving.step_model.profile import DEFAULT_PROFILE, Profile, RowWork
from serving.step_model.roofline import MOST_SIZES, matmul_values
from serving.step_model.split import split_step
from serving.wire.events import Bye, EngineStep, Entered, Hello, StepRow, Woke

COSTS = st.integers(0, 10**10)
PROFILES = st.builds(Profile, *([COSTS] * 13))
LLAMA = Profile(0, 0, 0, 0, 0, 0, 0, 0, weights=10_500_000_000, token=35_700_000)
"""A 70 B model on four GPUs, from data sheets: the ridge lies at 294 tokens."""


@given(
    st.lists(st.sampled_from([0, 1, 1, 3, 40, 90, 200, 300, 500]), min_size=1, max_size=6),
    st.integers(0, 10**6),
    st.integers(0, 10**4),
)
@settings(max_examples=60, deadline=None)
@example([1, 1, 300], 294, 1)
def test_the_pot_is_the_mean_of_what_rows_bring_in_every_order(sizes: list[int], weights: int, token: int) -> None:
    assume(len({size for size in sizes if 0 < size * token < weights}) <= MOST_SIZES)
    profile = Profile(0, 0, 0, 0, 0, 0, 0, 0, weights=weights, token=token)
    brought = [0] * len(sizes)
    for order in permutations(range(len(sizes))):
        held, so_far = 0, 0
        for i in order:
            held += sizes[i]
            now = max(weights, token * held) if held else 0
            brought[i] += now - so_far
            so_far = now
    values, whole = matmul_values(sizes, profile)
    assert [Fraction(value, whole) for value in values] == [Fraction(b, factorial(len(sizes))) for b in brought]


@given(st.lists(st.integers(1, 120), min_size=1, max_size=40), PROFILES)
@settings(max_examples=60, deadline=None)
def test_the_fluid_limit_is_exact_in_its_sum(sizes: list[int], profile: Profile) -> None:
    values, whole = matmul_values(sizes, profile)
    assert Fraction(sum(values), whole) == max(profile.weights, profile.token * sum(sizes))
    assert min(values) >= 0


@pytest.mark.parametrize(
    ("decodes", "chunks", "decode_us", "chunk_us"),
    [(256, [], 41.1, None), (255, [256], 58.5, 3315), (255, [1793], 58.9, 58066), (64, [496] * 4, 183, 15342)],
)
def test_known_values(decodes: int, chunks: list[int], decode_us: float, chunk_us: float | None) -> None:
    """Microseconds per row, worked out by hand for a 70 B model on four GPUs."""
    values, whole = matmul_values([1] * decodes + chunks, LLAMA)
    assert float(Fraction(values[0], whole)) / 1e6 == pytest.approx(decode_us, rel=0.01)
    if chunk_us is not None:
        assert float(Fraction(values[-1], whole)) / 1e6 == pytest.approx(chunk_us, rel=0.01)


def test_below_the_ridge_a_small_chunk_rides_for_a_decode_tokens_price() -> None:
    rows = [RowWork(0, 1, 50, key=f"r{i}") for i in range(32)] + [RowWork(224, 0, 0, key="chunk")]
    shares = split_step(10_500_000, rows, LLAMA)
    assert {sum(share) for share in shares} <= {318_181, 318_182}
    assert LLAMA.predict_ns(rows) == 10_500_000


def test_where_the_weights_are_free_it_is_the_first_method() -> None:
    """max(0, c T) is a cost per token."""
    two = Profile(3 * 10**9, 0, 0, 300, 500, 10**9, 2 * 10**9, 10**7, token=5 * 10**7)
    one = Profile(3 * 10**9, 5 * 10**7, 5 * 10**7, 300, 500, 10**9, 2 * 10**9, 10**7)
    rows = [RowWork(60, 0, 0, "law", 0, "a"), RowWork(0, 1, 80, "law", 0, "b"), RowWork(0, 1, 9, None, 0, "c")]
    assert two.predict_ns(rows) == one.predict_ns(rows)
    for mine, other in zip(split_step(10**7, rows, two), split_step(10**7, rows, one), strict=True):
        assert sum(mine) == pytest.approx(sum(other), abs=1)
        assert mine.adapter_ns == pytest.approx(other.adapter_ns, abs=1)


def test_a_hit_saves_no_matrix_products_in_the_weights_shadow() -> None:
    assert LLAMA.kv_saved_ns(200, False) == (0, 0)
    assert LLAMA.kv_saved_ns(1000, False)[0] == 25_200_000


def test_the_accountant_books_by_whichever_method_the_profile_is_for() -> None:
    hello = Hello("eng-1", "gpu-0", 0, 60 * 10**9)
    rows = (StepRow("a", 1, 10), StepRow("b", 300, 0))
    step = EngineStep(0, 10**6, 21 * 10**6, rows, (("a", 10), ("b", 0)), ("a", "b"), (), (), False)
    for model in (LLAMA, DEFAULT_PROFILE):
        meter = Accountant(model, "gpu-0")
        for event in (
            hello,
            Woke(0),
            Entered("a", "gw-1:a", "bank", None, 8, 0),
            Entered("b", "gw-1:b", "shop", None, 300, 0),
            step,
            Bye(22 * 10**6),
        ):
            meter.take(event)
        [window] = meter.windows(22 * 10**6)
        assert (window.method, window.profile) == (model.method, model.hash)
        works = [RowWork(0, 1, 10, None, 0, "a"), RowWork(300, 0, 0, None, 0, "b")]
        assert [share.base_ns for share in window.shares] == [
            share.base_ns for share in split_step(20 * 10**6, works, model)
        ]
        measured = meter.measured("gw-1:b")
        assert measured is not None
        assert measured.method == model.method


def test_nothing_costs_nothing() -> None:
    assert len(LLAMA.hash) == 12
    with pytest.raises(ValueError, match="could not split step"):
        split_step(1, [], LLAMA)
    assert split_step(0, [], LLAMA) == []
    assert LLAMA.predict_ns([]) == 0
