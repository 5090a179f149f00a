from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from telemetry.windows import WindowQuantile, WindowRatio

SECOND = 1_000_000_000
FIVE_MINUTES = 300 * SECOND

EVENTS = st.lists(
    st.tuples(st.integers(0, 200 * SECOND), st.integers(0, 50), st.integers(0, 50)).map(
        lambda e: (e[0], e[1], e[1] + e[2])
    ),
    max_size=30,
)


@given(EVENTS, st.integers(0, 600 * SECOND))
def test_a_ratio_holds_everything_of_the_window_and_nothing_older_than_a_thirtieth_more(
    steps: list[tuple[int, int, int]], idle: int
) -> None:
    window = WindowRatio(FIVE_MINUTES)
    now = 0
    events = []
    for step, hits, lookups in steps:
        now += step
        window.add(now, hits, lookups)
        events.append((now, hits, lookups))
    now += idle
    cut = [(now - FIVE_MINUTES + grace) for grace in (1, -10 * SECOND)]
    sums = [(sum(e[1] for e in events if e[0] >= c), sum(e[2] for e in events if e[0] >= c)) for c in cut]
    ratio = window.value(now)
    if sums[1][1] == 0:
        assert math.isnan(ratio)
    elif sums[0] == sums[1]:
        assert ratio == sums[0][0] / sums[0][1]
    else:
        assert math.isnan(ratio) or 0 <= ratio <= 1


def test_no_lookup_is_not_a_ratio_of_zero() -> None:
    window = WindowRatio(FIVE_MINUTES)
    assert math.isnan(window.value(0))
    window.add(0, 0, 4)
    assert window.value(1) == 0
    assert math.isnan(window.value(FIVE_MINUTES + 10 * SECOND))


def test_p99_is_the_nearest_rank_of_the_window() -> None:
    window = WindowQuantile(FIVE_MINUTES, 0.99)
    assert math.isnan(window.value(0))
    window.add(0, 1e9)
    for n in range(1, 101):
        window.add(n, float(n))
    assert window.value(200) == 100
    assert window.value(FIVE_MINUTES) == 99, "the value at the far end has left"
    assert math.isnan(window.value(FIVE_MINUTES + 100))


def test_a_quantile_keeps_the_newest_values_only() -> None:
    window = WindowQuantile(FIVE_MINUTES, 0.99, cap=3)
    for value in (100.0, 1.0, 2.0, 3.0):
        window.add(0, value)
    assert window.value(0) == 3
