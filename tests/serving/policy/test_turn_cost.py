"""What rows take of an engine's steps, against the step model's own split."""

from __future__ import annotations

from dataclasses import replace

from serving.policy.turn_cost import TurnCost
from serving.step_model.profile import DEFAULT_PROFILE, RowWork
from serving.step_model.split import split_step

PROFILE = replace(DEFAULT_PROFILE, c_d=0)
"""Context apart, which a row's steps have at its middle here and step by step there."""
ROWS = ("adapter-1", "adapter-1", "adapter-2", None)


def test_decoding_rows_take_what_the_split_gives_them() -> None:
    cost = TurnCost(PROFILE)
    readings = [cost.came(adapter) for adapter in ROWS]
    for _ in range(10):
        cost.step()
    took = [
        cost.went(adapter, reading) + cost.own(adapter, 0, 0, 10)
        for adapter, reading in zip(ROWS, readings, strict=True)
    ]
    work = [RowWork(0, 1, 50, adapter, key=str(n)) for n, adapter in enumerate(ROWS)]
    length = PROFILE.predict_ns(work)
    shares = [10 * (share.base_ns + share.adapter_ns) for share in split_step(length, work, PROFILE)]
    assert abs(sum(took) // 1000 - 10 * length) <= 10
    for mine, share in zip(took, shares, strict=True):
        assert abs(mine // 1000 - share) <= 0.0001 * share
    assert cost.rows == {}


def test_what_mixing_kinds_costs_is_shared_by_all_rows() -> None:
    cost = TurnCost(replace(PROFILE, a=0, mixed=700))
    base, tuned = cost.came(None), cost.came("a")
    cost.step()
    assert cost.went(None, base) == 350
    cost.step()
    assert cost.went("a", tuned) == 350 + 2 * (PROFILE.any_lora + PROFILE.per_adapter)


def test_a_row_pays_only_for_the_steps_it_was_in() -> None:
    cost = TurnCost(PROFILE)
    first = cost.came("a")
    cost.step()
    second = cost.came("a")
    cost.step()
    alone = PROFILE.a + PROFILE.any_lora + PROFILE.per_adapter
    assert cost.went("a", second) == alone // 2
    cost.step()
    assert cost.went("a", first) == alone + alone // 2 + alone


def test_a_prediction_is_what_the_row_takes_when_the_batch_stays() -> None:
    cost = TurnCost(PROFILE)
    cost.came("a")
    predicted = cost.predict("a", 16, 48, 9)
    reading = cost.came("a")
    for _ in range(10):
        cost.step()
    assert predicted == cost.went("a", reading) + cost.own("a", 16, 48, 9)
