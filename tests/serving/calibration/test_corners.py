"""Corners are counted by what is in the steps, and those that were hardly met are named."""

from __future__ import annotations

from random import Random

from serving.calibration.corners import CORNERS, corners_of, count, unseen
from serving.calibration.phases import MIXES, phases
from serving.step_model.profile import RowWork

BASE, LAW, MED = RowWork(0, 1, 9), RowWork(0, 1, 9, "law"), RowWork(20, 0, 0, "med")


def test_a_step_is_in_every_corner_that_it_shows() -> None:
    assert corners_of([LAW, *[BASE] * 4]) == ["decode-beside-base", "one LoRA row among base rows"]
    assert corners_of([LAW, *[BASE] * 3]) == ["decode-beside-base"]
    assert corners_of([BASE, LAW, LAW, MED, MED]) == ["mixed-several", "one base row among LoRA rows", "two adapters"]
    assert corners_of([RowWork(0, 1, 511, "law")]) == ["decode-alone", "a single row", "long context with an adapter"]
    assert corners_of([RowWork(512, 0, 0)]) == ["prefill-none", "a single row", "long context"]
    assert corners_of([RowWork(511, 0, 0)]) == ["prefill-none", "a single row"]


def test_what_was_met_in_fewer_than_five_steps_is_unseen() -> None:
    counted = count([[BASE]] * 5 + [[LAW]] * 4)
    assert counted == {"decode-none": 5, "decode-alone": 4, "a single row": 9}
    assert set(CORNERS) - set(unseen(counted)) == {"decode-none", "a single row"}


def test_the_calibration_load_holds_every_mix_in_both_halves() -> None:
    """The fit learns from every other phase, so each mix has to come in even and in odd places."""
    drawn = list(phases(Random(3), 4 * len(MIXES), [f"adapter-{n}" for n in range(8)], slots=4, max_tokens=600))
    for half in (drawn[::2], drawn[1::2]):
        kinds = [[call.adapter for call in phase.calls[: phase.at_once]] for phase in half]
        lone = [adapters for adapters in kinds if len(adapters) > 1 and adapters.count(None) == len(adapters) - 1]
        reverse = [adapters for adapters in kinds if len(adapters) > 1 and adapters.count(None) == 1]
        assert lone
        assert reverse
        assert any(set(adapters) == {None} for adapters in kinds)
        assert any(len(set(adapters)) == 1 and None not in adapters for adapters in kinds)
        assert any(len(set(adapters) - {None}) >= 2 for adapters in kinds)
