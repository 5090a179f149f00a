"""`engine-step/2`: sums are exact, and the matrix products' pot is the Shapley value of max(weights, compute)."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import permutations
from math import factorial
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from serving.metering.accounting import Accountant
from serving.step_model import linear as split
from serving.step_model import models
from serving.step_model import roofline as roofline
from serving.step_model.profile import DEFAULT_PROFILE, Profile, ProfileInvalid, RowWork
from serving.step_model.roofline import RooflineProfile, matmul_values
from serving.wire.events import Bye, EngineStep, Entered, Hello, StepRow, Woke

COSTS = st.integers(0, 10**10)
PROFILES = st.builds(RooflineProfile, *([COSTS] * 9))
LLAMA = RooflineProfile(
    a=0, weights=10_500_000_000, token=35_700_000, comm=0, c_p=0, c_d=0, any_lora=0, per_adapter=0, lora_token=0
)
"""A 70 B model on four GPUs, from data sheets: the ridge lies at 294 tokens."""


@st.composite
def row_lists(draw: st.DrawFn) -> list[RowWork]:
    rows = []
    for i in range(draw(st.integers(1, 16))):
        prefill, decode = draw(
            st.sampled_from([(0, 1), (0, 1), (0, 0), (37, 0), (90, 0), (150, 0), (512, 0), (900, 1)])
        )
        rows.append(
            RowWork(
                prefill,
                decode,
                draw(st.sampled_from([0, 7, 900])),
                draw(st.sampled_from([None, None, "law", "med"])),
                draw(st.sampled_from([0, 0, 1, prefill + decode])) if prefill + decode else 0,
                f"r{i}",
            )
        )
    return rows


@given(st.integers(0, 10**12), row_lists(), PROFILES, st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_a_split_is_exact_symmetric_and_blind_to_order(
    duration: int, rows: list[RowWork], profile: RooflineProfile, order: random.Random
) -> None:
    shares = roofline.split_step(duration, rows, profile)
    assert sum(map(sum, shares)) == duration
    assert min(min(share) for share in shares) >= 0
    like: dict[RowWork, list[int]] = {}
    for row, share in zip(rows, shares, strict=True):
        assert row.adapter is not None or share.adapter_ns == 0
        assert row.recompute or share.recompute_ns == 0
        like.setdefault(row._replace(key=""), []).append(sum(share))
    assert all(max(same) - min(same) <= 1 for same in like.values())
    by_key = {row.key: share for row, share in zip(rows, shares, strict=True)}
    mixed = order.sample(rows, len(rows))
    assert {
        row.key: share for row, share in zip(mixed, roofline.split_step(duration, mixed, profile), strict=True)
    } == by_key


@given(
    st.lists(st.sampled_from([0, 1, 1, 3, 40, 90, 200, 300, 500]), min_size=1, max_size=6),
    st.integers(0, 10**6),
    st.integers(0, 10**4),
)
@settings(max_examples=60, deadline=None)
@example([1, 1, 300], 294, 1)
def test_the_pot_is_the_mean_of_what_rows_bring_in_every_order(sizes: list[int], weights: int, token: int) -> None:
    assume(len({size for size in sizes if 0 < size * token < weights}) <= roofline.MOST_SIZES)
    profile = RooflineProfile(0, weights, token, 0, 0, 0, 0, 0, 0)
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
def test_the_fluid_limit_is_exact_in_its_sum(sizes: list[int], profile: RooflineProfile) -> None:
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
    shares = roofline.split_step(10_500_000, rows, LLAMA)
    assert {sum(share) for share in shares} <= {318_181, 318_182}
    assert LLAMA.predict_ns(rows) == 10_500_000


def test_where_the_weights_are_free_it_is_the_first_method() -> None:
    """max(0, c T) is a cost per token."""
    two = RooflineProfile(3 * 10**9, 0, 5 * 10**7, 0, 300, 500, 10**9, 2 * 10**9, 10**7)
    one = Profile(3 * 10**9, 5 * 10**7, 5 * 10**7, 300, 500, 10**9, 2 * 10**9, 10**7)
    rows = [RowWork(60, 0, 0, "law", 0, "a"), RowWork(0, 1, 80, "law", 0, "b"), RowWork(0, 1, 9, None, 0, "c")]
    assert two.predict_ns(rows) == one.predict_ns(rows)
    for mine, other in zip(roofline.split_step(10**7, rows, two), split.split_step(10**7, rows, one), strict=True):
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
            share.base_ns for share in models.split_step(20 * 10**6, works, model)
        ]
        measured = meter.measured("gw-1:b")
        assert measured is not None
        assert measured.method == model.method


def test_a_file_says_which_method_it_is_for(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    for model in (LLAMA, DEFAULT_PROFILE):
        path.write_text(model.to_json())
        assert models.load(path) == model
    for text, fact in (
        ('{"method":"engine-step/3"}', "neither"),
        ("[1]", "neither"),
        ("{", "not JSON"),
        ('{"method":"engine-step/2","a":1}', "it must have a, weights"),
        (LLAMA.to_json().replace("35700000", "35700001"), "hash says"),
    ):
        with pytest.raises(ProfileInvalid, match=fact):
            models.from_json(text)


def test_a_profile_refuses_what_is_no_cost() -> None:
    with pytest.raises(ProfileInvalid, match="weights must be picoseconds"):
        RooflineProfile(0, -1, 0, 0, 0, 0, 0, 0, 0)
    assert len(LLAMA.hash) == 12
    with pytest.raises(ValueError, match="could not split step"):
        roofline.split_step(1, [], LLAMA)
    assert roofline.split_step(0, [], LLAMA) == []
    assert LLAMA.predict_ns([]) == 0
