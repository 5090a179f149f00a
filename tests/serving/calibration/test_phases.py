"""Random load is the same for a seed, within the engine's limits, and varies what a profile has to learn."""

from __future__ import annotations

from random import Random

from serving.calibration.phases import phases

NAMES = [f"adapter-{n}" for n in range(8)]


def test_phases_stay_within_limits_and_vary() -> None:
    drawn = list(phases(Random(7), 80, NAMES, slots=4, max_tokens=600))
    assert drawn == list(phases(Random(7), 80, NAMES, slots=4, max_tokens=600))
    adapters = [{call.adapter for call in phase.calls if call.adapter} for phase in drawn]
    assert {len(names) for names in adapters} == {0, 1, 2, 3, 4}
    assert set().union(*adapters) == set(NAMES)
    assert {phase.at_once for phase in drawn} >= {1, 2, 3, 5, 8}
    assert max(phase.at_once for phase in drawn) > 12
    calls = [call for phase in drawn for call in phase.calls]
    assert max(len(call.tokens) + call.output for call in calls) == 600
    assert min(len(call.tokens) for call in calls) < 20
    alike = sum(len({call.tokens[:16] for call in phase.calls}) < len(phase.calls) for phase in drawn)
    assert 15 < alike < 50


def test_without_adapters_all_calls_are_the_base_models() -> None:
    drawn = list(phases(Random(1), 5, [], slots=4, max_tokens=600, most_at_once=3))
    assert all(call.adapter is None for phase in drawn for call in phase.calls)
    assert max(phase.at_once for phase in drawn) <= 3
