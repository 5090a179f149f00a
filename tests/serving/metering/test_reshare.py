"""The line that deals a shared prefix to all who used it moves time inside a tenant and makes none."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from serving.metering.profile import DEFAULT_PROFILE, Profile, RowWork
from serving.metering.reshare import Hit, reshare
from serving.metering.split import split_step

PLAIN = Profile(a=0, b_p=10**6, b_d=10**6, c_p=0, c_d=0, any_lora=0, per_adapter=0, lora_token=0)
"""A token costs a microsecond, and nothing else costs anything."""


def test_equal_users_of_a_prefix_end_up_with_equal_costs() -> None:
    rows = [
        RowWork(128, 0, 0, None, 0, "first"),
        RowWork(32, 0, 96, None, 0, "second"),
        RowWork(32, 0, 96, None, 0, "third"),
    ]
    line = reshare([(192_000, rows)], {"second": Hit("first", 96), "third": Hit("first", 96)}, PLAIN)
    assert line == {"first": -64_000, "second": 32_000, "third": 32_000}


def test_a_chunked_prefix_and_a_shorter_hit_are_paid_for_what_they_used() -> None:
    """`second` used all 96 tokens, `third`, which comes later, the first 64."""
    steps = [
        (80_000, [RowWork(80, 0, 0, None, 0, "first")]),
        (20_000, [RowWork(20, 0, 80, None, 0, "first")]),
        (4_000, [RowWork(4, 0, 96, None, 0, "second")]),
        (2_000, [RowWork(2, 0, 64, None, 0, "third")]),
    ]
    line = reshare(steps, {"second": Hit("first", 96), "third": Hit("first", 64)}, PLAIN)
    assert sum(line.values()) == 0
    third = 64_000 // 3
    assert abs(line["third"] - third) <= 2
    assert abs(line["second"] - third - 16_000) <= 2


def test_only_own_cost_moves_scaled_to_the_measured_time() -> None:
    """Fixed costs stay where they are; a step that took twice its prediction moves twice as much."""
    costly = Profile(
        a=100 * 10**6, b_p=10**6, b_d=0, c_p=0, c_d=0, any_lora=50 * 10**6, per_adapter=0, lora_token=10**6
    )
    rows = [RowWork(100, 0, 0, "law", 0, "first"), RowWork(10, 0, 90, "law", 0, "second")]
    assert costly.predict_ns(rows) == 370_000
    assert reshare([(740_000, rows)], {"second": Hit("first", 90)}, costly) == {"first": -180_000, "second": 180_000}


def test_without_hits_there_is_no_line() -> None:
    assert reshare([(1_000, [RowWork(10, 0, 0, None, 0, "first")])], {}, PLAIN) == {}


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 400)), min_size=1, max_size=6),
    st.lists(st.integers(0, 2000), min_size=1, max_size=5),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_the_line_adds_up_to_nothing_and_takes_no_more_than_was_paid(
    chunks: list[tuple[int, int]], hits: list[int], lora: bool
) -> None:
    adapter = "law" if lora else None
    steps, at, paid = [], 0, 0
    for duration, tokens in chunks:
        rows = [RowWork(tokens, 0, at, adapter, 0, "first"), RowWork(0, 1, 50, None, 0, "other")]
        paid += sum(split_step(duration, rows, DEFAULT_PROFILE)[0])
        steps.append((duration, rows))
        at += tokens
    line = reshare(steps, {f"u{i}": Hit("first", h) for i, h in enumerate(hits)}, DEFAULT_PROFILE)
    assert sum(line.values()) == 0
    assert 0 <= -line["first"] <= paid
    assert "other" not in line
