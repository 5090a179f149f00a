import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from math import factorial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.step_model.profile import DEFAULT_PROFILE, Profile, RowWork
from serving.step_model.split import RowShare, split_step

COSTS = st.integers(0, 10**10)
PROFILES = st.one_of(
    st.just(DEFAULT_PROFILE),
    st.builds(Profile, *([COSTS] * 8)),
    st.builds(Profile, *([COSTS] * 11)),
    st.builds(Profile, *([COSTS] * 13)),
    st.just(Profile(0, 1, 0, 0, 0, 0, 0, 0)),
)


@st.composite
def row_lists(draw: st.DrawFn, most: int = 24) -> list[RowWork]:
    rows = []
    for i in range(draw(st.integers(1, most))):
        prefill, decode = draw(st.sampled_from([(0, 1), (0, 0), (1, 0), (37, 0), (512, 0), (900, 1), (0, 4)]))
        rows.append(
            RowWork(
                prefill,
                decode,
                draw(st.sampled_from([0, 1, 7, 900])),
                draw(st.sampled_from([None, None, "law", "med", "code"])),
                draw(st.sampled_from([0, 0, 0, 1, prefill + decode])) if prefill + decode else 0,
                f"r{i}",
            )
        )
    return rows


def cost(rows: Sequence[RowWork], profile: Profile) -> Fraction:
    """A step's cost as docs/attribution.md states it, in picoseconds."""
    if not rows:
        return Fraction(0)
    total = Fraction(profile.a)
    for p, d, before, *_ in rows:
        total += profile.b_p * p + profile.b_d * d
        total += profile.c_p * p * (before + Fraction(p + 1, 2)) + profile.c_d * d * (before + p + 1)
    tokens = sum(row.prefill + row.decode for row in rows)
    lora = [row for row in rows if row.adapter is not None]
    lora_tokens = sum(row.prefill + row.decode for row in lora)
    total += max(profile.weights, profile.token * tokens) if tokens else 0
    total += profile.any_prefill * any(row.prefill for row in rows)
    total += profile.any_lora * bool(lora) + profile.per_adapter * len({row.adapter for row in lora})
    total += profile.lora_token * lora_tokens
    if lora and len({row.adapter for row in rows}) > 1:
        total += profile.mixed + profile.mixed_token * lora_tokens
    return total


def shapley(rows: Sequence[RowWork], profile: Profile) -> list[Fraction]:
    """What each row brings on average, over all orders in which rows may come."""
    brought = [Fraction(0)] * len(rows)
    costs: dict[frozenset[int], Fraction] = {}
    for order in permutations(range(len(rows))):
        so_far = Fraction(0)
        for place, row in enumerate(order):
            there = frozenset(order[: place + 1])
            if there not in costs:
                costs[there] = cost([rows[i] for i in there], profile)
            brought[row] += costs[there] - so_far
            so_far = costs[there]
    return [value / factorial(len(rows)) for value in brought]


def check_split(duration: int, rows: list[RowWork], profile: Profile, order: random.Random) -> None:
    shares = split_step(duration, rows, profile)
    assert sum(map(sum, shares)) == duration
    assert min(min(share) for share in shares) >= 0

    for row, share in zip(rows, shares, strict=True):
        if row.adapter is None:
            assert share.adapter_ns == 0
        if not row.recompute:
            assert share.recompute_ns == 0
        elif row.recompute == row.prefill + row.decode:
            assert share == (0, 0, sum(share))

    like: dict[RowWork, list[int]] = {}
    for row, share in zip(rows, shares, strict=True):
        like.setdefault(row._replace(key=""), []).append(sum(share))
    assert all(max(same) - min(same) <= 1 for same in like.values())

    by_key = {row.key: share for row, share in zip(rows, shares, strict=True)}
    mixed = order.sample(rows, len(rows))
    assert {row.key: share for row, share in zip(mixed, split_step(duration, mixed, profile), strict=True)} == by_key


SPLITS = given(st.integers(0, 10**12), row_lists(), PROFILES, st.randoms(use_true_random=False))


@SPLITS
@settings(max_examples=100, deadline=None)
def test_a_split_is_exact_symmetric_and_blind_to_order(
    duration: int, rows: list[RowWork], profile: Profile, order: random.Random
) -> None:
    check_split(duration, rows, profile, order)


@pytest.mark.nightly
@SPLITS
@settings(max_examples=10_000, deadline=None)
def test_a_split_is_exact_symmetric_and_blind_to_order_at_length(
    duration: int, rows: list[RowWork], profile: Profile, order: random.Random
) -> None:
    check_split(duration, rows, profile, order)


@given(st.integers(0, 10**12), row_lists(most=4), PROFILES)
@settings(max_examples=50, deadline=None)
def test_a_share_is_the_rows_shapley_value_in_the_step(duration: int, rows: list[RowWork], profile: Profile) -> None:
    """Scaled to what the step took. A row that costs nothing gets nothing."""
    rows = [row._replace(recompute=0) for row in rows]
    wanted = shapley(rows, profile)
    whole = sum(wanted)
    assert whole == cost(rows, profile)
    for share, value in zip(split_step(duration, rows, profile), wanted, strict=True):
        quota = duration * value / whole if whole else Fraction(duration, len(rows))
        assert abs(sum(share) - quota) < 1
        if whole and not value:
            assert share == (0, 0, 0)


def test_who_closes_the_fast_path_of_one_adapter_shares_its_price() -> None:
    """Golden: M = 8, m = 1 ms. One LoRA row of 6 tokens beside seven base rows: it joins them first in 7 of 8 orders."""
    profile = Profile(0, 0, 0, 0, 0, 0, 0, 0, mixed=8 * 10**9, mixed_token=10**9)
    rows = [RowWork(6, 0, 0, "law"), *(RowWork(0, 1, 9, None) for _ in range(7))]
    assert profile.predict_ns(rows) == 14_000_000
    lone, *others = split_step(14_000_000, rows, profile)
    assert lone == (0, 7_000_000 + 6 * 875_000, 0)
    assert set(others) == {(142_857 + 107_143, 0, 0)}
    assert split_step(9, rows[1:], profile) == [RowShare(ns, 0, 0) for ns in (2, 2, 1, 1, 1, 1, 1)]
    alone = [RowWork(6, 0, 0, "law"), RowWork(0, 1, 3, "law")]
    assert profile.predict_ns(alone) == 0


@given(row_lists(most=8), PROFILES, st.integers(1, 500))
@settings(max_examples=60, deadline=None)
def test_what_a_preempted_row_repeats_is_not_in_a_bystanders_share(
    rows: list[RowWork], profile: Profile, again: int
) -> None:
    """Beside a LoRA row that computes more again, the others' weights do not grow: their shares of the prediction stay or fall."""
    rows = [row._replace(recompute=0) for row in rows]
    profile = replace(profile, weights=0, token=0)
    repeats = [*rows, RowWork(10 + again, 0, 0, "law", again, "again")]
    plain = [*rows, RowWork(10, 0, 0, "law", 0, "again")]
    took = [Fraction(cost(some, profile)) for some in (plain, repeats)]
    shares = [split_step(10**15, some, profile) for some in (plain, repeats)]
    for row, before, after in zip(rows, *shares, strict=False):
        assert sum(after) * took[1] <= (sum(before) + 2) * took[0] + 10**3 * took[1], row


def test_pots_go_to_those_who_share_them() -> None:
    """Golden: a = 12, L = 6, e = 4 ms; two rows on one adapter, one on another, one on the base model."""
    profile = Profile(
        a=12 * 10**9,
        b_p=10**9,
        b_d=2 * 10**9,
        c_p=0,
        c_d=0,
        any_lora=6 * 10**9,
        per_adapter=4 * 10**9,
        lora_token=10**9,
    )
    rows = [
        RowWork(0, 1, 50, "law"),
        RowWork(0, 1, 70, "law"),
        RowWork(5, 0, 0, "med"),
        RowWork(0, 1, 9, None),
    ]
    exact = profile.predict_ns(rows)
    assert exact == (12 + 6 + 8 + 5 + 3 * 2 + 7) * 10**6
    assert split_step(exact, rows, profile) == [
        (5_000_000, 5_000_000, 0),
        (5_000_000, 5_000_000, 0),
        (8_000_000, 11_000_000, 0),
        (5_000_000, 0, 0),
    ]


def test_repeated_tokens_cost_their_own_part_and_a_row_of_them_all_it_has() -> None:
    profile = Profile(a=8 * 10**9, b_p=10**9, b_d=3 * 10**9, c_p=0, c_d=0, any_lora=0, per_adapter=0, lora_token=10**9)
    rows = [RowWork(10, 1, 0, "law", recompute=10), RowWork(4, 0, 10, "law", recompute=4)]
    assert split_step(profile.predict_ns(rows), rows, profile) == [
        (4_000_000 + 3_000_000, 1_000_000, 20_000_000),
        (0, 0, 4_000_000 + 8_000_000),
    ]


def test_a_prediction_is_the_cost() -> None:
    order = random.Random(7)
    for _ in range(50):
        rows = [
            RowWork(order.randrange(90), order.randrange(2), order.randrange(900), order.choice([None, "a", "b"]))
            for _ in range(order.randrange(1, 9))
        ]
        profile = replace(DEFAULT_PROFILE, mixed=order.randrange(10**9), mixed_token=order.randrange(10**6))
        assert abs(profile.predict_ns(rows) - cost(rows, profile) / 1000) <= Fraction(1, 2)


def test_time_without_rows_is_refused() -> None:
    assert split_step(0, [], DEFAULT_PROFILE) == []
    with pytest.raises(ValueError, match="1 ns over 0 rows"):
        split_step(1, [], DEFAULT_PROFILE)
    assert split_step(0, [RowWork(0, 1, 5)], DEFAULT_PROFILE) == [RowShare(0, 0, 0)]
