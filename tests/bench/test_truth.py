"""The truth bench's own arithmetic, on games whose values are known; nothing is measured here."""

from __future__ import annotations

import json
import random
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.truth import result, sets, shapley
from bench.truth.methods import METHODS, Steps, prefix_hits
from serving.step_model.profile import DEFAULT_PROFILE, RowWork

GAMES = st.integers(1, 4).flatmap(
    lambda n: st.lists(st.integers(0, 10**6), min_size=(1 << n) - 1, max_size=(1 << n) - 1).map(lambda v: [0, *v])
)


@given(GAMES)
@settings(max_examples=50, deadline=None)
def test_exact_values_are_the_mean_over_all_orders(values: list[int]) -> None:
    players = (len(values) - 1).bit_length()
    orders = list(permutations(range(players)))
    brought = [0] * players
    for order in orders:
        mask = 0
        for player in order:
            brought[player] += values[mask | 1 << player] - values[mask]
            mask |= 1 << player
    found = shapley.exact(values)
    assert found == pytest.approx([b / len(orders) for b in brought], abs=1e-6)
    assert sum(found) == pytest.approx(values[-1], abs=1e-6)


def test_exact_values_hold_the_axioms() -> None:
    """Additive players keep their own, equal ones share what they need together, one who brings nothing gets nothing."""
    own = (5.0, 7.0, 0.0)
    game = [sum(own[i] for i in range(3) if mask >> i & 1) + (10.0 if mask & 3 else 0.0) for mask in range(8)]
    assert shapley.exact(game) == pytest.approx([10.0, 12.0, 0.0])
    with pytest.raises(ValueError, match="no game of whole players"):
        shapley.exact([0.0, 1.0, 2.0])


def test_intervals_hold_what_the_noise_makes_uncertain() -> None:
    """Runs with 2 % noise: the interval of a value covers the truth about as often as it says."""
    order = random.Random(5)
    own = [100, 200, 300]
    covered = 0
    for _ in range(60):
        runs = {
            mask: [round(1e6 * sum(own[i] for i in range(3) if mask >> i & 1) * order.gauss(1, 0.02)) for _ in range(3)]
            for mask in range(1, 8)
        }
        drawn = shapley.resampled(runs, 3, 400, seed=1)
        low, high = sorted(drawn[:, 1])[10], sorted(drawn[:, 1])[389]
        covered += low <= 200e6 <= high
    assert 50 <= covered <= 60


def steps_for(truth_set: sets.TruthSet, mask: int) -> Steps:
    """One step that computes all prompts, and one that decodes: what a machine as the profile says would have taken."""
    calls = truth_set.chosen(mask)
    seen: set[tuple[int, ...]] = set()
    first, second = [], []
    for call in calls:
        shared = 96 if len(call.tokens) > 96 and call.tokens[:96] in seen else 0
        seen.add(call.tokens[:96])
        first.append(RowWork(len(call.tokens) - shared, 0, shared, call.adapter, 0, call.key))
        second.append(RowWork(0, 1, len(call.tokens), call.adapter, 0, call.key))
    return [(DEFAULT_PROFILE.predict_ns(rows), rows) for rows in (first, second)]


@pytest.mark.parametrize("name", ["tiny-mixed", "mid-decode", "mid-prefill"])
def test_every_method_charges_the_whole_run_and_tenants_of_both_views_of_ours_agree(name: str) -> None:
    truth_set = sets.load()[name]
    steps = steps_for(truth_set, 255)
    total = sum(ns for ns, _ in steps)
    charged = {method: charge(truth_set, steps, DEFAULT_PROFILE) for method, charge in METHODS.items()}
    for method, shares in charged.items():
        assert set(shares) == {call.key for call in truth_set.calls}
        assert sum(shares.values()) == pytest.approx(total), method
        assert min(shares.values()) >= 0
    for tenant in truth_set.tenants:
        keys = [call.key for call in truth_set.calls if call.tenant == tenant]
        assert sum(charged["ours"][k] for k in keys) == sum(charged["ours_without_reshare"][k] for k in keys)
    if name == "tiny-mixed":
        assert prefix_hits(truth_set, steps) == {"r3": ("r2", 96)}


def test_a_machine_that_is_as_the_profile_says_gives_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every figure of the result from runs that are made up; ours is exact there, a rate by tokens is not."""
    truth_set = sets.load()["tiny-mixed"]
    monkeypatch.setattr(result, "load", lambda: {"tiny-mixed": truth_set})
    assert result.of_set(truth_set, tmp_path) is None
    DEFAULT_PROFILE.save(tmp_path / "profile-tiny.json")
    with (tmp_path / "runs-tiny-mixed.jsonl").open("w") as file:
        for number, mask in sets.schedule("tiny-mixed"):
            steps = [
                [ns, [[int(row.key[1:]), row.prefill, row.decode, row.before] for row in rows]]
                for ns, rows in steps_for(truth_set, mask)
            ]
            run = {
                "sets": sets.digest(),
                "round": number,
                "mask": mask,
                "counts": True,
                "at": "2026-11-29T00:00:00+00:00",
                "ns": sum(ns for ns, _ in steps_for(truth_set, mask)),
                "off_core": 0.0,
                "steps": steps,
            }
            file.write(json.dumps(run) + "\n")
    found = result.build(tmp_path, {"cpu": "none"})
    one = found["sets"]["tiny-mixed"]
    assert one["rounds"] == 3
    assert one["noise_of_one_run"] == 0
    assert one["predicted_over_measured"]["sum"] == 1
    assert one["tenants"]["errors"]["ours"]["worst"] < 1e-3
    assert one["requests"]["errors"]["ours"]["worst"] < 0.02
    assert one["requests"]["errors"]["ours_without_reshare"]["worst"] > 0.2
    assert one["tenants"]["errors"]["token_average"]["worst"] > 0.1
    assert found["targets"]["at_once.tenants.mean"]["met"]
    assert "staggered.tenants.mean" not in found["targets"]


def test_the_schedule_is_fixed_and_gives_every_subset_its_rounds() -> None:
    for name, truth_set in sets.load().items():
        assert len(truth_set.calls) == 8
        assert len({call.adapter for call in truth_set.calls if call.adapter}) <= 4
        runs = sets.schedule(name)
        assert runs == sets.schedule(name)
        for mask in range(1, 256):
            times = sum(one == mask for _, one in runs)
            assert times == {1: 5, 7: 17, 8: 20}.get(mask.bit_count(), 3)
