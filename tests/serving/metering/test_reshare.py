"""The line that deals a shared prefix to all who used it moves time inside a tenant and makes none."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from bench.truth.reshare import Hit, reshare
from catalog.apportionment import deal
from serving.metering.reshare import PrefixBook
from serving.step_model.profile import DEFAULT_PROFILE, Profile, RowWork
from serving.step_model.split import own_curves, split_step
from telemetry.usage import UNKNOWN_TENANT

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


class Group:
    """Attempts of one tenant on a book, and what the lines so far come to for each."""

    def __init__(self, **limits: int) -> None:
        self.book = PrefixBook(**limits)
        self.lines: Counter[str] = Counter()

    def compute(
        self, attempt: str, tokens: int, before: int = 0, ns: int = 0, at: int = 0, tenant: str = "acme"
    ) -> None:
        """So many tokens in a step of their own, which takes 1 us a token unless `ns` says more."""
        row = RowWork(tokens, 0, before, None, 0, attempt)
        (curve,) = own_curves([row], PLAIN)
        self.book.paid(attempt, tenant, row, curve, ns or tokens * 1000, at)

    def use(self, user: str, payer: str, low: int, high: int, at: int = 0, tenant: str = "acme") -> dict[str, int]:
        moves = self.book.used(user, tenant, payer, low, high, at)
        assert sum(moves.values()) == 0
        assert 0 not in moves.values()
        self.lines.update(moves)
        return moves


def test_a_later_user_takes_its_part_from_each_of_the_earlier_ones() -> None:
    group = Group()
    group.compute("first", 120)
    assert group.use("second", "first", 0, 120) == {"first": -60_000, "second": 60_000}
    assert group.use("third", "first", 0, 120) == {"first": -20_000, "second": -20_000, "third": 40_000}
    assert group.use("third", "first", 0, 120) == {}
    assert group.lines == {"first": -80_000, "second": 40_000, "third": 40_000}


CHUNKS = st.lists(st.tuples(st.integers(1, 90), st.integers(1, 10**7)), min_size=1, max_size=4)
USES = st.lists(st.tuples(st.integers(0, 250), st.integers(0, 250)), min_size=1, max_size=5)


@given(CHUNKS, USES, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_in_the_end_the_order_of_users_does_not_matter_and_equal_ranges_cost_the_same(
    chunks: list[tuple[int, int]], uses: list[tuple[int, int]], order: Random
) -> None:
    ranges = [(min(pair), max(pair)) for pair in uses]
    asked = [(f"u{i}", low, high) for i, (low, high) in enumerate([*ranges, ranges[0]])]
    ends = []
    for _ in range(2):
        group, at = Group(), 0
        for tokens, ns in chunks:
            group.compute("first", tokens, at, ns)
            at += tokens
        for user, low, high in asked:
            group.use(user, "first", low, high)
        ends.append({user: ns for user, ns in group.lines.items() if ns})
        order.shuffle(asked)
    assert ends[0] == ends[1]
    cuts = len(chunks) + 2 * len(asked)
    assert abs(ends[0].get("u0", 0) - ends[0].get(f"u{len(ranges)}", 0)) <= cuts
    assert 0 <= -ends[0].get("first", 0) <= sum(ns for _, ns in chunks)


def test_nothing_moves_between_tenants_or_for_one_that_is_not_known() -> None:
    group = Group()
    group.compute("first", 100)
    group.compute("stray", 100, tenant=UNKNOWN_TENANT)
    assert group.use("second", "first", 0, 100, tenant="other") == {}
    assert group.use("second", "stray", 0, 100, tenant=UNKNOWN_TENANT) == {}
    assert group.use("second", "never seen", 0, 100) == {}
    assert group.use("first", "first", 0, 100) == {}


def test_what_is_remembered_is_bounded_in_payers_users_and_time() -> None:
    group = Group(most_payers=2, most_users=3, keep_ns=50)
    for i, name in enumerate(("old", "middle", "new")):
        group.compute(name, 10, at=i)
    assert len(group.book) == 2
    assert group.use("u0", "old", 0, 10, at=3) == {}
    assert group.use("u0", "middle", 0, 10, at=51)
    assert group.use("u1", "middle", 0, 10, at=52) == {}
    group.compute("next", 10, at=53)
    assert len(group.book) == 1, "what is too old is given up, however few there are"
    assert group.use("u0", "next", 0, 10, at=60)
    assert group.use("u1", "next", 0, 10, at=61)
    assert group.use("u2", "next", 0, 10, at=62) == {}, "the fourth would be one too many"


def test_repeated_tokens_and_those_of_another_sample_are_no_prefix() -> None:
    """`first` loses its prompt to a preemption and computes 60 tokens, 40 of them again; its second sample computes nothing new."""
    group = Group()
    group.compute("first", 40, ns=40_000)
    row = RowWork(60, 0, 0, None, 40, "first")
    group.book.paid("first", "acme", row, own_curves([row], PLAIN)[0], 600_000, 0)
    group.compute("first", 60, ns=10**9)
    assert group.use("second", "first", 0, 60) == {"first": -120_000, "second": 120_000}


ROWS = st.builds(
    RowWork,
    st.integers(0, 300),
    st.integers(0, 2),
    st.integers(0, 900),
    st.sampled_from([None, "law", "med"]),
    st.just(0),
    st.just(""),
).filter(lambda row: row.prefill + row.decode > 0)
ROOFLINE = Profile(
    10**9, 10**6, 10**6, 5000, 9000, 10**8, 10**9, 10**7, mixed=10**8, mixed_token=10**6, weights=10**10, token=7 * 10**7
)  # fmt: skip


@given(st.lists(ROWS, min_size=1, max_size=6), st.integers(0, 10**9), st.sampled_from([DEFAULT_PROFILE, ROOFLINE]))
@settings(max_examples=80, deadline=None)
def test_a_curve_has_the_weight_that_the_split_gives_the_row_and_is_a_part_of_it(
    rows: list[RowWork], duration_ns: int, model: Profile
) -> None:
    rows = [row._replace(key=f"r{i}") for i, row in enumerate(rows)]
    curves = own_curves(rows, model)
    # A curve is over a denominator of its own row.
    sizes = [row.prefill + row.decode for row in rows]
    weights = [curve.weight // size for curve, size in zip(curves, sizes, strict=True)]
    assert [curve.weight % size for curve, size in zip(curves, sizes, strict=True)] == [0] * len(rows)
    shares = split_step(duration_ns, rows, model)
    assert deal(duration_ns, weights, [row.key for row in rows]) == [sum(share) for share in shares]
    for row, curve in zip(rows, curves, strict=True):
        assert 0 <= (curve.linear + curve.square * row.prefill) * row.prefill <= curve.weight


def test_below_the_ridge_a_prefix_of_the_second_method_costs_no_products() -> None:
    """All rows share the reading of the weights; what tokens cost beside it is their own."""
    rows = [RowWork(100, 0, 0, None, 0, "a"), RowWork(0, 1, 50, None, 0, "b")]
    (curve, _) = own_curves(rows, replace(ROOFLINE, b_p=0, c_p=0))
    assert (curve.linear, curve.square) == (0, 0)
    rows[0] = rows[0]._replace(prefill=1000)
    (curve, _) = own_curves(rows, ROOFLINE)
    assert 0.9 < (curve.linear + curve.square * 1000) * 1000 / curve.weight < 1
