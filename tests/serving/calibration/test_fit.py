import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from serving.calibration.corners import count
from serving.calibration.fit import CalibrationRefused, errors_ppm, fit
from serving.step_model.profile import COEFFICIENTS, Profile, RowWork
from serving.step_model.sample import StepSample
from serving.step_model.step_class import STEP_CLASSES

KNOWN = Profile(
    a=3_060_000_000,
    b_p=51_000_000,
    b_d=130_000_000,
    c_p=28_000,
    c_d=500_000,
    any_lora=3_800_000_000,
    per_adapter=3_400_000_000,
    lora_token=44_000_000,
    build="known",
)
"""A profile with every term in it; how the built-in one was fitted is no business of these tests."""

Noise = Callable[[random.Random], float]


def steps_of(
    profile: Profile, count: int, noise: Noise, seed: int = 3, most: int = 12, long: int = 256
) -> list[StepSample]:
    """Steps as random phases give them: a phase is all prefill, all decode or both, with 0 to 4 adapters.

    Up to `most` rows in a step, of which some continue a prompt after `long` tokens.
    """
    order = random.Random(seed)
    steps = []
    for i in range(count):
        phase = i // 20
        kind, adapters = phase % 3, [None, "a", "b", "c", "d"][: 1 + phase % 5]
        rows = []
        for _ in range(order.randrange(1, most + 1)):
            adapter = order.choice(adapters)
            if kind == 0 or (kind == 2 and order.random() < 0.3):
                rows.append(RowWork(order.randrange(16, 900), 0, order.choice([0, 0, long]), adapter))
            else:
                rows.append(RowWork(0, 1, order.randrange(16, 2000 + 8 * (long - 256)), adapter))
        steps.append(StepSample(phase, round(profile.predict_ns(rows) * noise(order)), tuple(rows)))
    return steps


MIXED = replace(KNOWN, mixed=2_000_000_000, mixed_token=20_000_000)
ROOFLINE = Profile(
    a=3_000_000_000,
    b_p=0,
    b_d=0,
    c_p=660,
    c_d=24_500,
    any_lora=2_000_000_000,
    per_adapter=1_000_000_000,
    lora_token=9_000_000,
    mixed=0,
    mixed_token=0,
    weights=10_500_000_000,
    token=35_700_000,
    build="a 70 B model on four GPUs, by data sheet",
)
"""Its ridge lies at 294 tokens."""


@pytest.mark.parametrize("seed", [3, 11])
def test_a_simulated_roofline_is_recovered_under_noise(seed: int) -> None:
    """1 % noise; every coefficient within 5 %, and what it says of steps on either side of the ridge within 2 %."""
    found = fit(steps_of(ROOFLINE, 6000, lambda order: order.gauss(1, 0.01), seed, most=48, long=8192))
    assert found.method == "engine-step/2"
    for name in COEFFICIENTS:
        known = getattr(ROOFLINE, name)
        if known:
            assert getattr(found, name) == pytest.approx(known, rel=0.05), name
    for step in steps_of(ROOFLINE, 300, lambda _: 1.0, 5, most=48, long=8192):
        assert found.predict_ns(step.rows) == pytest.approx(step.duration_ns, rel=0.02)


def test_what_it_costs_to_mix_kinds_of_rows_is_found() -> None:
    found = fit(steps_of(MIXED, 3000, lambda order: order.gauss(1, 0.03)))
    assert found.method == "engine-step/3"
    assert found.mixed == pytest.approx(MIXED.mixed, rel=0.05)
    assert found.mixed_token == pytest.approx(MIXED.mixed_token, rel=0.05)
    plain = fit(steps_of(KNOWN, 3000, lambda _: 1.0))
    assert (plain.method, plain.mixed, plain.mixed_token) == ("engine-step/1", 0, 0)


def test_a_known_profile_is_found_again_under_noise_and_stalls() -> None:
    """3 % noise, and one step in fifty takes ten times as long."""

    def noise(order: random.Random) -> float:
        return order.gauss(1, 0.03) * (10 if order.random() < 0.02 else 1)

    found = fit(steps_of(KNOWN, 3000, noise), build="test")
    for name in COEFFICIENTS:
        # A decode token is 1 % of a step, and context some percent of most, so noise of 3 % blurs them more than the others.
        within = {"b_d": 0.15, "c_p": 0.1}.get(name, 0.05)
        assert getattr(found, name) == pytest.approx(
            getattr(KNOWN, name), rel=within, abs=10**8 if name in ("mixed", "any_prefill") else 10**6
        ), name
    for step in steps_of(KNOWN, 200, lambda _: 1.0, seed=4):
        assert found.predict_ns(step.rows) == pytest.approx(step.duration_ns, rel=0.02)
    assert found.steps == 3000
    assert found.build == "test"
    assert found.seen["adapters"] == 4
    assert found.seen["rows"] == 12
    assert 256 + 800 < found.seen["context"] <= 2000
    assert set(found.error_ppm) <= set(STEP_CLASSES)
    assert {name.partition("-")[0] for name in found.error_ppm} == {"prefill", "decode", "mixed"}
    assert found.corners == count(step.rows for step in steps_of(KNOWN, 3000, noise))
    assert all(5_000 < error < 45_000 for error in found.error_ppm.values())


def test_two_hundred_exact_steps_give_the_profile_itself() -> None:
    found = fit(steps_of(KNOWN, 200, lambda _: 1.0))
    for name in COEFFICIENTS:
        assert getattr(found, name) == pytest.approx(getattr(KNOWN, name), rel=1e-3), name
    assert max(found.error_ppm.values()) < 100


def test_no_coefficient_goes_below_zero() -> None:
    """Where LoRA costs nothing, noise would pull its terms to either side."""
    free = Profile(a=3 * 10**9, b_p=5 * 10**7, b_d=10**8, c_p=0, c_d=0, any_lora=0, per_adapter=0, lora_token=0)
    found = fit(steps_of(free, 600, lambda order: order.gauss(1, 0.05)))
    assert min(getattr(found, name) for name in COEFFICIENTS) == 0
    assert found.a == pytest.approx(free.a, rel=0.05)
    assert found.b_p == pytest.approx(free.b_p, rel=0.05)


def test_too_few_steps_or_one_phase_are_refused() -> None:
    steps = steps_of(KNOWN, 199, lambda _: 1.0)
    with pytest.raises(CalibrationRefused, match="199 steps with rows, 200 are needed"):
        fit([*steps, StepSample(0, 10, ()), StepSample(0, 0, steps[0].rows)])
    with pytest.raises(CalibrationRefused, match="one phase"):
        fit([step._replace(phase=1) for step in [*steps, steps[0]]])


def test_errors_are_medians_by_class() -> None:
    decode = RowWork(0, 1, 9)
    exact = KNOWN.predict_ns([decode])
    steps = [StepSample(0, exact * k, (decode,)) for k in (1, 2, 4)]
    assert errors_ppm(KNOWN, steps) == {"decode-none": 500_000}
