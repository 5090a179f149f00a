"""What of a step is a stall, what a saving is worth in measured time, and which of its tokens are new."""

from __future__ import annotations

import pytest

from serving.metering.steps import STALL_FACTOR, _first_time, scaled, split_at_minutes
from serving.step_model.profile import DEFAULT_PROFILE, RowWork
from serving.wire.events import LoadSpan


@pytest.mark.parametrize(
    ("took_ns", "predicted_ns", "stalls"),
    [(3000, 1000, [0]), (3001, 1000, [1]), (2999, 1000, [0]), (10**9, 0, [0]), (4000, 1000, [1000])],
)
def test_a_stall_is_what_lies_above_three_predictions_and_without_a_prediction_there_is_none(
    took_ns: int, predicted_ns: int, stalls: list[int]
) -> None:
    assert STALL_FACTOR == 3
    pieces = split_at_minutes([], [(100, 100 + took_ns)], (), predicted_ns, DEFAULT_PROFILE)
    assert [piece.stall_ns for piece in pieces] == stalls
    assert [(piece.start_ns, piece.end_ns, piece.net_ns, piece.predicted_ns) for piece in pieces] == [
        (100, 100 + took_ns, took_ns, predicted_ns)
    ]


def test_loads_come_off_first_and_stall_and_prediction_are_dealt_by_what_is_left_of_each_minute() -> None:
    load = LoadSpan("coder", "read", 0, 2000, False, 10)
    pieces = split_at_minutes([], [(1000, 4000), (4000, 10_000)], [load], 1000, DEFAULT_PROFILE)
    assert [piece.net_ns for piece in pieces] == [2000, 6000]
    assert [piece.stall_ns for piece in pieces] == [1250, 3750]
    assert [piece.predicted_ns for piece in pieces] == [250, 750]


def test_a_saving_is_worth_what_the_step_took_and_nothing_more_where_nothing_was_predicted() -> None:
    assert scaled((100, 7), 3000, 1000) == (300, 21)
    assert scaled((100, 7), 500, 1000) == (50, 3)
    assert scaled((100, 7), 500, 0) == (100, 7)


@pytest.mark.parametrize(
    ("prefill", "decode", "recompute", "first"),
    [(9, 0, 0, (9, 0)), (9, 0, 4, (5, 0)), (9, 0, 9, (0, 0)), (0, 1, 1, (0, 0)), (9, 1, 9, (0, 1)), (9, 1, 10, (0, 0))],
)
def test_what_is_computed_again_is_not_counted_again(
    prefill: int, decode: int, recompute: int, first: tuple[int, int]
) -> None:
    assert _first_time(RowWork(prefill, decode, 0, None, recompute=recompute)) == first
